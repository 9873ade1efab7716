# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compiles the cases of kernels that match globs for a target with Triton, and runs them on an HSA library.

    check.py --target GFX --library LIBHSA [--shard I/N] GLOB...

prints a line of JSON for each case: its name, the outcome, details and the code object's path. Each case has a process
of its own, so that neither a compiler nor a kernel that crashes ends the others. TRITON_CACHE_DIR is the folder of
compiled kernels."""

import argparse
import ctypes
import fnmatch
import json
import os
import re
import signal
import struct
import sys
import tempfile
import time
import traceback

import numpy as np

import atomics  # noqa: F401 (registers cases, as those below do)
import attention  # noqa: F401
import descriptors  # noqa: F401
import elementwise  # noqa: F401
import matmul  # noqa: F401
import normalization  # noqa: F401
import reductions  # noqa: F401
import scans  # noqa: F401
import shapes  # noqa: F401
import triton
from cases import CASES, TRITON_NAMES, difference
from hsa import Gpu
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.cache import triton_key

# Seconds after which a case is ended.
LIMIT = 300
WAVE64 = {"gfx906", "gfx908", "gfx90a", "gfx942", "gfx950"}
SCALARS = {"i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q", "fp32": "f", "fp64": "d"}


def type_of(value):
    """Triton's type of an argument: integers are 64 bits wide if they must be."""
    if isinstance(value, np.ndarray):
        return "*" + TRITON_NAMES[value.dtype]
    if isinstance(value, np.generic):
        return TRITON_NAMES[value.dtype]
    if isinstance(value, float):
        return "fp32"
    return "i32" if -(2**31) <= value < 2**31 else "i64"


def gpu_of(target):
    return GPUTarget("hip", target, 64 if target in WAVE64 else 32)


def compile_launch(launch, target):
    """The compiled kernel, and its arguments that are not constants, with their types."""
    signature, constants, attributes, given = {}, {}, {}, []
    for index, parameter in enumerate(launch.kernel.params):
        value = launch.arguments[parameter.name]
        if parameter.is_constexpr:
            signature[parameter.name] = "constexpr"
            constants[parameter.name] = value
            continue
        signature[parameter.name] = kind = type_of(value)
        given.append((parameter.name, kind, value))
        # The just-in-time compiler tells the same of aligned pointers and of multiples of 16.
        is_multiple = isinstance(value, np.ndarray) or isinstance(value, int) and value % 16 == 0
        if is_multiple:
            attributes[(index,)] = [["tt.divisibility", 16]]
    source = ASTSource(launch.kernel, signature, constants, attributes)
    options = {"num_warps": launch.warps, "num_stages": launch.stages, "enable_fp_fusion": False, **launch.options}
    return triton.compile(source, target=gpu_of(target), options=options), given


def pack(values, size, hidden):
    """Kernel arguments, each at a multiple of its size, then the hidden ones at their offsets, as the ABI has them."""
    data = b""
    for kind, value in values:
        data += bytes(-len(data) % struct.calcsize(kind)) + struct.pack("<" + kind, value)
    if not hidden and -(-len(data) // 8) != -(-size // 8):
        raise RuntimeError(f"the kernel takes {size} bytes of arguments, not {len(data)}")
    data = bytearray(data.ljust(size, b"\0"))
    for offset, width, value in hidden:
        data[offset : offset + width] = value.to_bytes(width, "little")
    return bytes(data)


def hidden_arguments(assembly, grid, workgroup):
    """Offsets, sizes and values of the hidden arguments in the metadata of a kernel. All other hidden arguments are zero."""
    values = {f"hidden_block_count_{axis}": count for axis, count in zip("xyz", grid)}
    values |= {f"hidden_group_size_{axis}": count for axis, count in zip("xyz", (workgroup, 1, 1))}
    values["hidden_grid_dims"] = 3
    arguments = re.findall(r"\.offset: +(\d+)\s+\.size: +(\d+)\s+\.value_kind: +(hidden_\w+)", assembly)
    return [(int(offset), int(size), values.get(kind, 0)) for offset, size, kind in arguments]


def run_launch(launch, compiled, given, library):
    """Runs a compiled kernel. Returns a description of each difference."""
    metadata = compiled.metadata
    gpu = Gpu(library, compiled.asm["hsaco"], metadata.name)
    grid = (*launch.grid, 1, 1)[:3]
    values, buffers = [], {}
    for name, kind, value in given:
        if isinstance(value, np.ndarray):
            # Allocators hand out whole words; atomics on halves of words access the word.
            buffers[name] = gpu.buffer(-(-value.nbytes // 4) * 4)
            gpu.write(buffers[name], value.tobytes().ljust(-(-value.nbytes // 4) * 4, b"\0"))
            values.append(("Q", buffers[name]))
        else:
            values.append((SCALARS[kind], value))
    for size in (metadata.global_scratch_size, metadata.profile_scratch_size):
        values.append(("Q", gpu.buffer(size * grid[0] * grid[1] * grid[2]) if size else 0))
    workgroup = metadata.num_warps * metadata.warp_size
    hidden = hidden_arguments(compiled.asm["amdgcn"], grid, workgroup)
    gpu.run(pack(values, gpu.kernarg_size, hidden), grid, workgroup, metadata.shared)
    found = []
    for name, address in buffers.items():
        before = launch.arguments[name]
        got = np.frombuffer(gpu.read(address, before.nbytes), before.dtype).reshape(before.shape)
        wanted = launch.expected.get(name)
        if wanted is None:
            told = difference(got, before, 0, 0)
        else:
            if (wanted.shape, wanted.dtype) != (before.shape, before.dtype):
                raise ValueError(f"{name}: {before.dtype}{before.shape} is expected to be {wanted.dtype}{wanted.shape}")
            told = difference(got, wanted, launch.relative, launch.absolute)
        if told:
            found.append(f"{name}{told}")
    return found


def perform(name, target, library, report):
    """Compiles and runs a case, and reports how far it has come."""
    launch = CASES[name]()
    report(stage="compile")
    try:
        compiled, given = compile_launch(launch, target)
    except Exception as error:
        report(stage="refused", detail=f"{type(error).__name__}: {error}")
        return
    report(stage="run", path=str(compiled.metadata_group[f"{compiled.name}.hsaco"]))
    found = run_launch(launch, compiled, given, library)
    report(stage="ran", detail="; ".join(found))


def run_case(name, target, library):
    """Runs a case in a child process. Returns its outcome."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as reports:
        child = os.fork()
        if child == 0:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            signal.alarm(LIMIT)

            def report(**fields):
                os.write(reports.fileno(), (json.dumps(fields) + "\n").encode())

            code = 0
            try:
                perform(name, target, library, report)
            except BaseException:
                traceback.print_exc()
                code = 1
            # Runs the library's exit handlers, and none of Python's.
            sys.stdout.flush()
            sys.stderr.flush()
            ctypes.CDLL(None).exit(code)
        _, status = os.waitpid(child, 0)
        output.seek(0)
        reports.seek(0)
        text = output.read().decode(errors="replace")
        last = {"stage": "make"}
        for line in reports.read().decode().splitlines():
            last.update(json.loads(line))
    outcome, detail = judge(last, os.waitstatus_to_exitcode(status), text)
    seconds = time.monotonic() - start
    return {"name": name, "outcome": outcome, "detail": detail, "path": last.get("path", ""), "seconds": round(seconds, 2)}


def judge(last, code, text):
    """The outcome of a case and its details, from its last report, its exit code and its output."""
    findings = [line for line in text.splitlines() if line.startswith("hsa-sim:")]
    stage = last["stage"]
    if stage == "refused" or stage == "compile":
        return "refused", refusal(last.get("detail", f"the compiler ended with {code}"), text)
    if stage != "ran" or code != 0:
        how = "took too long" if code == -signal.SIGALRM else f"ended with {code} at stage {stage}"
        tail = findings or text.strip().splitlines()[-3:]
        return "failed", " | ".join([how, *tail])
    if last["detail"] or findings:
        return "failed", " | ".join([part for part in [last["detail"], *findings] if part])
    return "passed", ""


def refusal(detail, text):
    """The line with the reason of a refusal: of the compiler's output, else the last of the exception."""
    told = re.search(r"error: .*|LLVM ERROR.*|.*Assertion.*", text)
    lines = [line for line in detail.splitlines() if line.strip()]
    return told.group() if told else lines[-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("globs", nargs="+")
    arguments = parser.parse_args()
    shard, shards = map(int, arguments.shard.split("/"))
    names = [name for name in CASES if any(fnmatch.fnmatchcase(name, glob) for glob in arguments.globs)]
    print(json.dumps({"cases": len(names)}), flush=True)
    # The hashes of the compiler's files are part of the names in its cache; children inherit them.
    triton_key()
    make_backend(gpu_of(arguments.target)).parse_options({"enable_fp_fusion": False}).hash()
    for name in names[shard::shards]:
        print(json.dumps(run_case(name, arguments.target, arguments.library)), flush=True)


if __name__ == "__main__":
    main()
