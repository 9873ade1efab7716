# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a model that IREE compiled on arrays of NumPy: run_model.py [--device=DEVICE] MODULE FUNCTION INPUT...

MODULE is a .vmfb file, an INPUT a .npy file or numbers with commas between them, which become an array of f32. DEVICE is
amdgpu_rs by default, which iree.runtime has where IREE's Python bindings were built with the driver.
"""

import argparse

import numpy
from iree import runtime


def array(text):
    """The array that an argument stands for."""
    if text.endswith(".npy"):
        return numpy.load(text)
    return numpy.array([float(number) for number in text.split(",")], dtype=numpy.float32)


def main():
    description, _, epilog = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(description=description, epilog=epilog)
    parser.add_argument("--device", default="amdgpu_rs")
    parser.add_argument("module")
    parser.add_argument("function")
    parser.add_argument("inputs", type=array, nargs="*", metavar="input")
    arguments = parser.parse_args()

    config = runtime.Config(device=runtime.get_device(arguments.device))
    module = runtime.load_vm_module(runtime.VmModule.mmap(config.vm_instance, arguments.module), config)
    results = module[arguments.function](*arguments.inputs)
    for result in results if isinstance(results, tuple) else [results]:
        print(result.to_host())


if __name__ == "__main__":
    main()
