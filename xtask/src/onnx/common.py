# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shared code of these scripts: arrays for iree-run-module, and models for iree-compile."""

import re

import numpy
import onnx
import onnxruntime
from iree.compiler.tools.import_onnx import __main__ as importer
from onnx import helper, numpy_helper, version_converter

# The least version of ONNX's operations of which iree-compile takes BatchNormalization and others.
OPSET = 17


def save(folder, name, array, kind):
    """Writes an array as iree-run-module reads it; `kind` is IREE's name of a type that NumPy lacks."""
    if kind is None:
        # iree-run-module reads arrays in the order of C alone.
        numpy.save(folder / f"{name}.npy", numpy.asarray(array, order="C"))
        return {"file": f"{name}.npy", "type": None, "shape": array.shape}
    array.tofile(folder / f"{name}.bin")
    return {"file": f"{name}.bin", "type": kind, "shape": array.shape}


def import_model(model, path):
    """Imports a model as iree-import-onnx does. Returns the name of its function."""
    source = path.with_suffix(".onnx")
    onnx.save(model, source)
    importer.main(importer.parse_arguments([str(source), "-o", str(path)]))
    source.unlink()
    return re.search(r'func\.func @("[^"]*"|[^( ]*)\(', path.read_text()).group(1).strip('"')


def session(model, optimized=None):
    """onnxruntime's session of a model; `optimized` is the path of the model with its constants folded, which it writes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if optimized:
        options.optimized_model_filepath = str(optimized)
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def shaped(model, arrays):
    """A serialized model, for inputs of exactly these shapes."""
    model = onnx.load_from_string(model)
    # Older models list their weights among the inputs.
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    for value in model.graph.input:
        dimensions = value.type.tensor_type.shape.dim
        for dimension, size in zip(dimensions, arrays[value.name].shape, strict=True):
            dimension.dim_value = size
    for value in model.graph.output:
        for index, dimension in enumerate(value.type.tensor_type.shape.dim):
            dimension.dim_param = f"{value.name}_{index}"
    return model


def shapes_of(model):
    """The shapes of a model's values, by name."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    return {value.name: [d.dim_value for d in value.type.tensor_type.shape.dim] for value in [*graph.input, *graph.value_info]}


def gather_reflections(model):
    """Makes gathers of constant indices from padding by reflection, which iree-compile 3.13.0 gets wrong when a slice follows."""
    shapes = shapes_of(model)
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in [node for node in model.graph.node if node.op_type == "Pad" and b"reflect" in [a.s for a in node.attribute]]:
        shape, pads = shapes[node.input[0]], constants[node.input[1]]
        place, value = list(model.graph.node).index(node), node.input[0]
        model.graph.node.remove(node)
        padded = [axis for axis in range(len(shape)) if pads[axis] or pads[len(shape) + axis]]
        for axis in padded:
            indices = numpy.pad(numpy.arange(shape[axis]), (pads[axis], pads[len(shape) + axis]), "reflect")
            result = node.output[0] if axis == padded[-1] else f"{node.output[0]}_{axis}"
            model.graph.initializer.append(numpy_helper.from_array(indices, f"{result}_indices"))
            gather = helper.make_node("Gather", [value, f"{result}_indices"], [result], axis=axis)
            model.graph.node.insert(place, gather)
            place, value = place + 1, result


def trim_padding(model):
    """Removes the padding at the end that no window of a strided convolution reaches: iree-compile 3.13.0 refuses it where the result
    has the size 1."""
    shapes = shapes_of(model)
    for node in model.graph.node:
        attributes = {attribute.name: attribute.ints for attribute in node.attribute}
        pads, strides, kernel = (attributes.get(name) for name in ("pads", "strides", "kernel_shape"))
        if node.op_type != "Conv" or not (pads and strides and kernel and node.input[0] in shapes):
            continue
        rank = len(kernel)
        for axis, size in enumerate(shapes[node.input[0]][2:]):
            reach = (kernel[axis] - 1) * attributes.get("dilations", [1] * rank)[axis] + 1
            unused = (size + pads[axis] + pads[rank + axis] - reach) % strides[axis]
            pads[rank + axis] -= min(unused, pads[rank + axis])


def split_directions(model):
    """Replaces each bidirectional GRU, which iree-compile 3.13.0 does not lower, by two: the second reads and writes the reversed
    sequence. Weights must be constants."""
    shapes = shapes_of(model)
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in [node for node in model.graph.node if node.op_type == "GRU"]:
        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        if attributes.get("direction") != b"bidirectional":
            continue
        if len(node.input) > 4 and node.input[4]:
            raise ValueError("a GRU of sequences of several lengths")
        made, states = [], [value for value in node.output[1:] if value]
        turned = numpy.arange(shapes[node.input[0]][0])[::-1].copy()
        turned = numpy_helper.from_array(turned, f"{node.output[0]}_turned")
        model.graph.initializer.append(turned)
        for direction in range(2):
            name = f"{node.output[0]}_{direction}"
            inputs, weights = [node.input[0]], [constants[value][direction : direction + 1] for value in node.input[1:4]]
            if direction:
                made.append(helper.make_node("Gather", [node.input[0], turned.name], [f"{name}_x"], axis=0))
                inputs = [f"{name}_x"]
            for index, weight in enumerate(weights):
                model.graph.initializer.append(numpy_helper.from_array(weight, f"{name}_w{index}"))
                inputs.append(f"{name}_w{index}")
            if len(node.input) > 5:
                index = numpy_helper.from_array(numpy.array([direction]), f"{name}_index")
                model.graph.initializer.append(index)
                made.append(helper.make_node("Gather", [node.input[5], index.name], [f"{name}_h"], axis=0))
                inputs += ["", f"{name}_h"]
            kept = {key: value for key, value in attributes.items() if key in ("hidden_size", "linear_before_reset")}
            outputs = [f"{name}_turned" if direction else f"{name}_y", f"{name}_state"]
            made.append(helper.make_node("GRU", inputs, outputs, **kept))
        made.append(helper.make_node("Gather", [f"{name}_turned", turned.name], [f"{name}_y"], axis=0))
        first, second = f"{node.output[0]}_0", name
        if node.output[0]:
            made.append(helper.make_node("Concat", [f"{first}_y", f"{second}_y"], [node.output[0]], axis=1))
        if states:
            made.append(helper.make_node("Concat", [f"{first}_state", f"{second}_state"], states, axis=0))
        place = list(model.graph.node).index(node)
        model.graph.node.remove(node)
        for index, new in enumerate(made):
            model.graph.node.insert(place + index, new)


def import_for_compiler(model, path):
    """Imports a model with work-arounds for iree-compile. Returns the name of its function."""
    if model.opset_import[0].version < OPSET:
        model = version_converter.convert_version(model, OPSET)
    # Shapes that the model computes become constants, which the compiler needs for strided convolutions.
    optimized = path.with_suffix(".optimized.onnx")
    session(model, optimized)
    model = onnx.load(optimized)
    optimized.unlink()
    gather_reflections(model)
    trim_padding(model)
    split_directions(model)
    return import_model(model, path)
