# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Downloads a file of Debian's archive: debian.py FILE SHA256 PATH MIRROR..."""

import hashlib
import sys
import urllib.request

file, sha256, path, *mirrors = sys.argv[1:]
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
    with open(file, "wb") as output:
        output.write(data)
    sys.exit(0)
sys.exit(f"{path} cannot be had from the Debian mirrors that apt uses:\n" + "\n".join(problems))
