# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A transformer block over several ranks, each with a part of the heads and of the hidden layer.

Writes block.mlir, which all ranks run, and inputN.K.npy and expected.npy: the arguments of rank N, and the result of
the whole block by NumPy.

Usage: block.py RANKS FOLDER
"""

import pathlib
import sys

import numpy as np

RANKS, FOLDER = int(sys.argv[1]), pathlib.Path(sys.argv[2])
TOKENS, WIDTH, HEADS, HIDDEN = 8, 32, 4, 64
SIZE = WIDTH // HEADS
assert HEADS % RANKS == 0 and HIDDEN % RANKS == 0, "heads and hidden units are divided among the ranks"
OWN, PART, INNER = HEADS // RANKS, WIDTH // RANKS, HIDDEN // RANKS

RANK_LIST = ", ".join(str(rank) for rank in range(RANKS))


def sum_over_ranks(result, operand):
    kind = f"tensor<{TOKENS}x{WIDTH}xf32>"
    return f"""  {result} = "stablehlo.all_reduce"({operand}) ({{ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32> }}) {{
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
      replica_groups = dense<[[{RANK_LIST}]]> : tensor<1x{RANKS}xi64>, use_global_device_ids
    }} : ({kind}) -> {kind}
"""


X, QKV, PROJECT = f"tensor<{TOKENS}x{WIDTH}xf32>", f"tensor<{WIDTH}x{PART}xf32>", f"tensor<{PART}x{WIDTH}xf32>"
UP, DOWN, MINE = f"tensor<{WIDTH}x{INNER}xf32>", f"tensor<{INNER}x{WIDTH}xf32>", f"tensor<{TOKENS}x{PART}xf32>"
SPLIT, SCORES = f"tensor<{TOKENS}x{OWN}x{SIZE}xf32>", f"tensor<{OWN}x{TOKENS}x{TOKENS}xf32>"
ROWS, MIXED = f"tensor<{OWN}x{TOKENS}xf32>", f"tensor<{OWN}x{TOKENS}x{SIZE}xf32>"
HID = f"tensor<{TOKENS}x{INNER}xf32>"


def matmul(result, left, right, types):
    return f"  {result} = stablehlo.dot_general {left}, {right}, contracting_dims = [1] x [0] : ({types[0]}, {types[1]}) -> {types[2]}\n"


text = f"""module @block attributes {{mhlo.num_partitions = {RANKS} : i32, mhlo.num_replicas = 1 : i32}} {{
func.func @main(%x: {X}, %wq: {QKV}, %wk: {QKV}, %wv: {QKV}, %wo: {PROJECT}, %w1: {UP}, %w2: {DOWN}) -> {X} {{
"""
for name in "qkv":
    text += matmul(f"%{name}0", "%x", f"%w{name}", (X, QKV, MINE))
    text += f"  %{name} = stablehlo.reshape %{name}0 : ({MINE}) -> {SPLIT}\n"
text += f"""  %scores0 = stablehlo.dot_general %q, %k, batching_dims = [1] x [1], contracting_dims = [2] x [2] : ({SPLIT}, {SPLIT}) -> {SCORES}
  %scale = stablehlo.constant dense<{SIZE ** -0.5!r}> : {SCORES}
  %scores = stablehlo.multiply %scores0, %scale : {SCORES}
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %top = stablehlo.reduce(%scores init: %least) applies stablehlo.maximum across dimensions = [2] : ({SCORES}, tensor<f32>) -> {ROWS}
  %tops = stablehlo.broadcast_in_dim %top, dims = [0, 1] : ({ROWS}) -> {SCORES}
  %shifted = stablehlo.subtract %scores, %tops : {SCORES}
  %powers = stablehlo.exponential %shifted : {SCORES}
  %total = stablehlo.reduce(%powers init: %zero) applies stablehlo.add across dimensions = [2] : ({SCORES}, tensor<f32>) -> {ROWS}
  %totals = stablehlo.broadcast_in_dim %total, dims = [0, 1] : ({ROWS}) -> {SCORES}
  %weights = stablehlo.divide %powers, %totals : {SCORES}
  %mixed0 = stablehlo.dot_general %weights, %v, batching_dims = [0] x [1], contracting_dims = [2] x [0] : ({SCORES}, {SPLIT}) -> {MIXED}
  %mixed1 = stablehlo.transpose %mixed0, dims = [1, 0, 2] : ({MIXED}) -> {SPLIT}
  %mixed = stablehlo.reshape %mixed1 : ({SPLIT}) -> {MINE}
"""
text += matmul("%own", "%mixed", "%wo", (MINE, PROJECT, X)) + sum_over_ranks("%attention", "%own")
text += f"  %y = stablehlo.add %x, %attention : {X}\n"
text += matmul("%hidden0", "%y", "%w1", (X, UP, HID))
text += f"  %hidden = stablehlo.tanh %hidden0 : {HID}\n"
text += matmul("%share", "%hidden", "%w2", (HID, DOWN, X)) + sum_over_ranks("%network", "%share")
text += f"  %z = stablehlo.add %y, %network : {X}\n  return %z : {X}\n}} }}\n"

FOLDER.mkdir(parents=True, exist_ok=True)
(FOLDER / "block.mlir").write_text(text)

rng = np.random.default_rng(7)
random = lambda *shape: (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
x, wq, wk, wv, wo = random(TOKENS, WIDTH), *(random(WIDTH, WIDTH) for _ in range(4))
w1, w2 = random(WIDTH, HIDDEN), random(HIDDEN, WIDTH)

for rank in range(RANKS):
    columns, hidden = slice(rank * PART, (rank + 1) * PART), slice(rank * INNER, (rank + 1) * INNER)
    shards = (x, wq[:, columns], wk[:, columns], wv[:, columns], wo[columns], w1[:, hidden], w2[hidden])
    for index, shard in enumerate(shards):
        np.save(FOLDER / f"input{rank}.{index}.npy", np.ascontiguousarray(shard))

heads = lambda w: (x @ w).reshape(TOKENS, HEADS, SIZE).swapaxes(0, 1)
scores = heads(wq) @ heads(wk).swapaxes(1, 2) * SIZE**-0.5
powers = np.exp(scores - scores.max(-1, keepdims=True))
mixed = (powers / powers.sum(-1, keepdims=True)) @ heads(wv)
y = x + mixed.swapaxes(0, 1).reshape(TOKENS, WIDTH) @ wo
np.save(FOLDER / "expected.npy", y + np.tanh(y @ w1) @ w2)
