# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Imports ONNX's backend tests: import_tests.py FOLDER GLOB...

Each test gets FOLDER/NAME with its inputs and expected outputs as arrays, model.mlir as iree-import-onnx makes it, where there are small
integer inputs also folded.mlir, in which they are constants, and test.json, which says what is there. FOLDER/selected.json lists the
names that match a GLOB. What was imported before is left as it is. A line `[done/total] name` tells how far it is.
"""

import fnmatch
import json
import os
import sys
from pathlib import Path

import ml_dtypes
import numpy
import onnx
from onnx import TensorProto, numpy_helper

from common import import_model, save

SUITES = ["node", "simple", "pytorch-converted", "pytorch-operator"]
# Inputs of so many integers at most, such as axes and shapes, may become constants.
FOLDED_ELEMENTS = 64
# Types that NumPy lacks: the names in IREE's tools, and NumPy's types of as many bits.
OTHER_TYPES = {
    TensorProto.BFLOAT16: ("bf16", ml_dtypes.bfloat16),
    TensorProto.FLOAT8E4M3FN: ("f8E4M3FN", ml_dtypes.float8_e4m3fn),
    TensorProto.FLOAT8E4M3FNUZ: ("f8E4M3FNUZ", ml_dtypes.float8_e4m3fnuz),
    TensorProto.FLOAT8E5M2: ("f8E5M2", ml_dtypes.float8_e5m2),
    TensorProto.FLOAT8E5M2FNUZ: ("f8E5M2FNUZ", ml_dtypes.float8_e5m2fnuz),
}


class Refused(Exception):
    """Why a test cannot be run."""


def read_array(path, value, what):
    """The tensor in a file that holds a `value`, and its type if NumPy has none."""
    if not value.type.HasField("tensor_type"):
        raise Refused(f"{what} is no tensor but a {value.type.WhichOneof('value').removesuffix('_type')}")
    kind = value.type.tensor_type.elem_type
    tensor = TensorProto.FromString(path.read_bytes())
    if kind in OTHER_TYPES:
        name, dtype = OTHER_TYPES[kind]
        bits = numpy.dtype(f"u{numpy.dtype(dtype).itemsize}")
        array = numpy_helper.to_array(tensor)
        # Arrays of as many bits hold the bits already, under a type of onnx's own.
        return (array if array.itemsize == bits.itemsize else array.astype(dtype)).view(bits), name
    array = numpy_helper.to_array(tensor)
    if array.dtype.kind not in "biufc" or kind in (TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT4E2M1):
        raise Refused(f"{what} is of {TensorProto.DataType.Name(kind)}, which iree-run-module does not take")
    return array, None


def folded(model, arrays):
    """The model with its small integer inputs as constants and the inputs that remain, or None if it has none."""
    small = {
        value.name: array
        for value, (array, kind) in zip(model.graph.input, arrays)
        if kind is None and array.dtype in (numpy.int32, numpy.int64) and array.ndim <= 1 and array.size <= FOLDED_ELEMENTS
    }
    if not small:
        return None
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.input[:]
    copy.graph.input.extend(value for value in model.graph.input if value.name not in small)
    copy.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in small.items())
    return copy, [index for index, value in enumerate(model.graph.input) if value.name not in small]


def attempt(model, inputs, path):
    """One way of importing, or its refusal."""
    try:
        return {"mlir": path.name, "function": import_model(model, path), "inputs": inputs}
    except Exception as error:
        return {"refused": first_line(error)}


def first_line(error):
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def import_test(source, folder):
    model = onnx.load(source / "model.onnx")
    # Older models list their weights among the inputs.
    weights = {tensor.name for tensor in model.graph.initializer}
    values = [value for value in model.graph.input if value.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(values)
    # The name of the function: tests that differ in their data only are compiled once.
    model.graph.name = "main"
    data = source / "test_data_set_0"
    try:
        files = [data / f"input_{index}.pb" for index in range(len(values))]
        arrays = [read_array(file, value, f"input {value.name}") for file, value in zip(files, values)]
        inputs = [save(folder, f"input_{index}", *array) for index, array in enumerate(arrays)]
        outputs = []
        for index, value in enumerate(model.graph.output):
            array = read_array(data / f"output_{index}.pb", value, f"output {value.name}")
            outputs.append(save(folder, f"output_{index}", *array))
    except Refused as error:
        return {"ways": [{"refused": str(error)}], "outputs": []}
    ways = [attempt(model, inputs, folder / "model.mlir")]
    other = folded(model, arrays)
    if other:
        ways.append(attempt(other[0], [inputs[index] for index in other[1]], folder / "folded.mlir"))
    return {"ways": ways, "outputs": outputs}


def in_child(work):
    """Runs `work` in a process of its own, so that a crash of the importer fails one test. Returns true if it succeeded."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            sys.stdout.flush()
            os._exit(status)
    return os.waitpid(child, 0)[1]


def main(folder, globs):
    data = Path(onnx.__file__).parent / "backend/test/data"
    tests = {path.name: path for suite in SUITES for path in sorted((data / suite).iterdir()) if (path / "model.onnx").is_file()}
    names = [name for name in tests if any(fnmatch.fnmatchcase(name, glob) for glob in globs)]
    folder.mkdir(parents=True, exist_ok=True)
    for done, name in enumerate(names):
        description = folder / name / "test.json"
        if description.exists():
            continue
        print(f"[{done}/{len(names)}] {name}", flush=True)
        description.parent.mkdir(exist_ok=True)

        def work():
            partial = description.with_suffix(".partial")
            partial.write_text(json.dumps(import_test(tests[name], description.parent)))
            partial.rename(description)

        status = in_child(work)
        if status != 0:
            description.write_text(json.dumps({"ways": [{"refused": f"the importer ended with status {status}"}], "outputs": []}))
    (folder / "selected.json").write_text(json.dumps(names))


main(Path(sys.argv[1]), sys.argv[2:])
