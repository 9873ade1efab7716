# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints the cases of `cargo xtask collectives` as JSON: the module of each, and for each rank the flags of
iree-run-module with its inputs and with the results that NumPy computes.

Usage: cases.py RANKS
"""

import json
import sys

import numpy as np

RANKS = int(sys.argv[1])
TYPES = {np.dtype("f4"): "f32", np.dtype("f2"): "f16", np.dtype("i4"): "i32", np.dtype("i8"): "i64"}
ALL = f"[[{', '.join(map(str, range(RANKS)))}]]"


def literal(array, kind=None, shape=None):
    """An array as iree-run-module reads it, or one value for all elements of `shape`."""
    array = np.asarray(array)
    shape = shape or "".join(f"{size}x" for size in array.shape)
    return f"{shape}{kind or TYPES[array.dtype]}=" + " ".join(repr(float(v)) if array.dtype.kind == "f" else str(v) for v in array.flat)


def groups(lists):
    text = str(lists).replace("'", "")
    return f"dense<{text}> : tensor<{len(lists)}x{len(lists[0])}xi64>"


def attributes(lists, use_ids=True):
    ids = ", use_global_device_ids" if use_ids else ""
    return f"channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = {groups(lists)}{ids}"


def module(body):
    return f"module @m attributes {{mhlo.num_partitions = {RANKS} : i32, mhlo.num_replicas = 1 : i32}} {{\n{body}\n}}\n"


def reducer(function, kind):
    return f"""({{ ^bb0(%a: tensor<{kind}>, %b: tensor<{kind}>):
    %s = stablehlo.{function} %a, %b : tensor<{kind}>
    stablehlo.return %s : tensor<{kind}> }})"""


def tensor(shape, kind):
    return "tensor<" + "".join(f"{size}x" for size in shape) + kind + ">"


def all_reduce(shape, kind, function="add", lists=None):
    lists = lists or [list(range(RANKS))]
    kind_of = tensor(shape, kind)
    return module(f"""func.func @main(%x: {kind_of}) -> {kind_of} {{
  %o = "stablehlo.all_reduce"(%x) {reducer(function, kind)} {{{attributes(lists)}}} : ({kind_of}) -> {kind_of}
  return %o : {kind_of} }}""")


rng = np.random.default_rng(40)


def floats(*shape, kind="f4"):
    """Values whose sums are exact in any order."""
    return [rng.integers(-8, 9, shape).astype(kind) for _ in range(RANKS)]


cases = []


def case(name, text, inputs, expected, kind=None, shape=None):
    """`inputs` and `expected` have an entry for each rank; each is an array or a tuple of arrays."""
    ranks = []
    for rank in range(RANKS):
        given = inputs[rank] if isinstance(inputs[rank], tuple) else (inputs[rank],)
        wanted = expected[rank] if isinstance(expected[rank], tuple) else (expected[rank],)
        flags = [f"--input={literal(array, kind, shape)}" for array in given]
        ranks.append(flags + [f"--expected_output={literal(array, kind, shape)}" for array in wanted])
    cases.append({"name": name, "module": text, "ranks": ranks})


# All-reduce, of every function and type that the compiler lowers.
for function, combine in [("add", np.add), ("multiply", np.multiply), ("minimum", np.minimum), ("maximum", np.maximum)]:
    x = floats(9)
    case(f"all_reduce_{function}_f32", all_reduce([9], "f32", function), x, [combine.reduce(x)] * RANKS)
for kind, name in [("f2", "f16"), ("i4", "i32"), ("i8", "i64")]:
    x = floats(5, kind=kind)
    case(f"all_reduce_add_{name}", all_reduce([5], name), x, [sum(x)] * RANKS)
x = floats(8)
case("all_reduce_add_bf16", all_reduce([8], "bf16"), x, [sum(x)] * RANKS, kind="bf16")
# Around the ring; each array is one value, repeated.
large = all_reduce([3, 50001], "f32")
case("all_reduce_large", large, [np.float32(rank) for rank in range(RANKS)], [np.float32(sum(range(RANKS)))] * RANKS, shape="3x50001x")
if RANKS % 2 == 0:
    half = RANKS // 2
    x = floats(8)
    lists = [list(range(half)), list(range(half, RANKS))]
    results = [sum(x[:half])] * half + [sum(x[half:])] * half
    case("all_reduce_groups", all_reduce([8], "f32", lists=lists), x, results)

# Two independent reductions: a group.
x, y = floats(8), floats(8)
two = module(f"""func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {{
  %o = "stablehlo.all_reduce"(%x) {reducer("add", "f32")} {{{attributes([list(range(RANKS))])}}} : (tensor<8xf32>) -> tensor<8xf32>
  %p = "stablehlo.all_reduce"(%y) {reducer("add", "f32")} {{{attributes([list(range(RANKS))])}}} : (tensor<8xf32>) -> tensor<8xf32>
  return %o, %p : tensor<8xf32>, tensor<8xf32> }}""")
case("two_reduces", two, list(zip(x, y)), [(sum(x), sum(y))] * RANKS)

# All-gather, along both dimensions.
for dim in (0, 1):
    x = floats(2, 3)
    result = [2, 3]
    result[dim] *= RANKS
    text = module(f"""func.func @main(%x: tensor<2x3xf32>) -> {tensor(result, "f32")} {{
  %o = "stablehlo.all_gather"(%x) {{all_gather_dim = {dim} : i64, {attributes([list(range(RANKS))])}}} : (tensor<2x3xf32>) -> {tensor(result, "f32")}
  return %o : {tensor(result, "f32")} }}""")
    case(f"all_gather_dim{dim}", text, x, [np.concatenate(x, dim)] * RANKS)

# All-to-all.
x = floats(RANKS, 3)
text = module(f"""func.func @main(%x: tensor<{RANKS}x3xf32>) -> tensor<{RANKS}x3xf32> {{
  %o = "stablehlo.all_to_all"(%x) {{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = {RANKS} : i64, {attributes([list(range(RANKS))], False)}}} : (tensor<{RANKS}x3xf32>) -> tensor<{RANKS}x3xf32>
  return %o : tensor<{RANKS}x3xf32> }}""")
case("all_to_all", text, x, [np.stack([x[source][rank] for source in range(RANKS)]) for rank in range(RANKS)])

# Permutations, with and without ranks that receive nothing.
for name, pairs in [
    ("permute_shift", [[rank, rank + 1] for rank in range(RANKS - 1)]),
    ("permute_rotate", [[rank, (rank + 1) % RANKS] for rank in range(RANKS)]),
]:
    x = floats(4)
    text = module(f"""func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %o = "stablehlo.collective_permute"(%x) {{source_target_pairs = {groups(pairs)}, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}} : (tensor<4xf32>) -> tensor<4xf32>
  return %o : tensor<4xf32> }}""")
    sources = {target: source for source, target in pairs}
    case(name, text, x, [x[sources[rank]] if rank in sources else np.zeros(4, "f4") for rank in range(RANKS)])

# Reduce-scatter.
x = floats(2 * RANKS, 3)
text = module(f"""func.func @main(%x: tensor<{2 * RANKS}x3xf32>) -> tensor<2x3xf32> {{
  %o = "stablehlo.reduce_scatter"(%x) {reducer("add", "f32")} {{scatter_dimension = 0 : i64, {attributes([list(range(RANKS))])}}} : (tensor<{2 * RANKS}x3xf32>) -> tensor<2x3xf32>
  return %o : tensor<2x3xf32> }}""")
case("reduce_scatter", text, x, [sum(x)[2 * rank : 2 * rank + 2] for rank in range(RANKS)])

# The rank itself.
text = module("""func.func @main() -> tensor<ui32> {
  %o = "stablehlo.partition_id"() : () -> tensor<ui32>
  return %o : tensor<ui32> }""")
case("partition_id", text, [()] * RANKS, list(np.arange(RANKS)), kind="ui32")

# A multi-layer perceptron with its weights divided among the ranks.
inner = 4 * RANKS
x = rng.standard_normal((2, 8)).astype("f4")
w1, w2 = rng.standard_normal((8, inner)).astype("f4"), rng.standard_normal((inner, 8)).astype("f4")
text = module(f"""func.func @main(%x: tensor<2x8xf32>, %w1: tensor<8x4xf32>, %w2: tensor<4x8xf32>) -> tensor<2x8xf32> {{
  %h = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %t = stablehlo.tanh %h : tensor<2x4xf32>
  %p = stablehlo.dot_general %t, %w2, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %o = "stablehlo.all_reduce"(%p) {reducer("add", "f32")} {{{attributes([list(range(RANKS))])}}} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %z = stablehlo.add %o, %x : tensor<2x8xf32>
  return %z : tensor<2x8xf32> }}""")
shards = [(x, w1[:, 4 * r : 4 * r + 4], w2[4 * r : 4 * r + 4]) for r in range(RANKS)]
case("mlp", text, shards, [np.tanh(x @ w1) @ w2 + x] * RANKS)

json.dump(cases, sys.stdout)
