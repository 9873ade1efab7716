# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases of `cargo xtask python` with iree.runtime: cases.py CASE ARGUMENT..."""

import json
import sys
import tomllib
from pathlib import Path

import numpy
from iree import runtime

# How far sums of some hundred products in another order may be apart, as a part of the largest value.
TOLERANCE = 1e-5


def load(module, device="amdgpu_rs"):
    config = runtime.Config(device=runtime.get_device(device))
    return runtime.load_vm_module(runtime.VmModule.mmap(config.vm_instance, module), config)


def compare(actual, expected, tolerance):
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), (actual.shape, actual.dtype)
    difference = numpy.abs(actual - expected).max() / numpy.abs(expected).max()
    print(f"differs by {difference:.1e} of the largest value")
    # Written so that a NaN does not pass.
    assert difference <= tolerance, f"that is more than {tolerance:.0e}"


def devices(package):
    """The package is the one that was built, and has the driver with its devices."""
    assert Path(runtime.__file__).is_relative_to(package), runtime.__file__
    assert "amdgpu_rs" in runtime.query_available_drivers(), runtime.query_available_drivers()
    found = runtime.get_driver("amdgpu_rs").query_available_devices()
    print(*found, sep="\n")
    assert found


def matmul(module):
    """A product of matrices, against NumPy's."""
    a, b = numpy.random.default_rng(1).standard_normal((2, 512, 512), numpy.float32)
    compare(load(module)["matmul"](a, b).to_host(), a @ b, TOLERANCE)


def demo(gpu, cpu, folder):
    """The demo's digits, against IREE's CPU backend in the same process."""
    images, labels = (numpy.load(Path(folder) / f"test_{name}.npy") for name in ("images", "labels"))
    logits, expected = (load(*where)["classify"](images).to_host() for where in ((gpu,), (cpu, "local-sync")))
    print(f"read {(logits.argmax(axis=1) == labels).sum()} of {len(labels)} correctly")
    compare(logits, expected, TOLERANCE)
    assert (logits.argmax(axis=1) == expected.argmax(axis=1)).all()


def network(module, folder, networks):
    """A network of models/onnx.toml, against onnxruntime's results."""
    folder = Path(folder)
    (tolerance,) = [n["tolerance"] for n in tomllib.loads(Path(networks).read_text())["network"] if n["name"] == folder.name]
    test = json.loads((folder / "test.json").read_text())
    (way,) = test["ways"]
    inputs, expected = ([numpy.load(folder / array["file"]) for array in arrays] for arrays in (way["inputs"], test["outputs"]))
    results = load(module)[way["function"]](*inputs)
    results = results if isinstance(results, tuple) else (results,)
    for result, array in zip(results, expected, strict=True):
        compare(result.to_host(), array, tolerance)


CASES = {case.__name__: case for case in [devices, matmul, demo, network]}
CASES[sys.argv[1]](*sys.argv[2:])
