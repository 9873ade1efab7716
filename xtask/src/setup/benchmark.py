# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Downloads a source archive of Debian and unpacks it: benchmark.py FOLDER SHA256 PATH MIRROR..."""

import hashlib
import io
import sys
import tarfile
import urllib.request

folder, sha256, path, *mirrors = sys.argv[1:]
problems = []
for mirror in mirrors:
    try:
        with urllib.request.urlopen(mirror.rstrip("/") + "/" + path, timeout=60) as response:
            data = response.read(16 << 20)
    except OSError as error:
        problems.append(f"{mirror}: {error}")
        continue
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        problems.append(f"{mirror}: the file's SHA-256 is {found}, expected {sha256}")
        continue
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        # What is in it is known by its hash. Only the name of its one folder is dropped.
        members = archive.getmembers()
        for member in members:
            member.name = member.name.partition("/")[2] or "."
        archive.extractall(folder, members)
    sys.exit(0)
sys.exit(f"{path} cannot be had from the Debian mirrors that apt uses:\n" + "\n".join(problems))
