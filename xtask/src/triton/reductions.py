# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reductions of blocks."""

import numpy as np
import triton
import triton.language as tl
from cases import Launch, case, dtype, filled, is_float, random, wide


@triton.jit
def sum_kernel(a, out, BLOCK: tl.constexpr):
    tl.store(out, tl.sum(tl.load(a + tl.arange(0, BLOCK)), 0))


@case(type=["i8", "i16", "i32", "i64", "u32", "f16", "bf16", "f32", "f64"])
def sum_1d(type):
    a = random(type, 1024)
    if is_float(type):
        # Sums of small integers are exact in any order.
        a = np.random.default_rng(1).integers(-1, 2, 1024).astype(dtype(type))
    # Triton sums short integers as 32-bit ones.
    kind = {"i8": "i32", "i16": "i32"}.get(type, type)
    expected = np.array([a.astype(dtype(kind) if not is_float(type) else np.float64).sum()]).astype(dtype(kind))
    return Launch(sum_kernel, dict(a=a, out=filled(kind, 1), BLOCK=1024), dict(out=expected))


@triton.jit
def extrema_kernel(a, out, BLOCK: tl.constexpr):
    x = tl.load(a + tl.arange(0, BLOCK))
    tl.store(out, tl.max(x, 0).to(out.dtype.element_ty))
    tl.store(out + 1, tl.min(x, 0).to(out.dtype.element_ty))


@case(type=["i8", "i16", "i32", "i64", "u8", "u32", "u64", "f16", "bf16", "f32", "f64"])
def extrema(type):
    a = random(type, 512)
    return Launch(extrema_kernel, dict(a=a, out=filled(type, 2), BLOCK=512), dict(out=np.array([a.max(), a.min()])), warps=2)


@triton.jit
def arg_extrema_kernel(a, out, rows, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    x = tl.load(a + row[:, None] * COLUMNS + column[None, :])
    tl.store(out + row, tl.argmax(x, 1))
    tl.store(out + rows + row, tl.argmin(x, 1))
    tl.store(out + 2 * rows + column, tl.argmax(x, 0))


@case(type=["i8", "i32", "i64", "f16", "bf16", "f32", "f64"])
def arg_extrema(type):
    n = 32
    # Few values, so that many are equal: the first counts.
    a = np.random.default_rng(2).integers(-9, 10, (n, n)).astype(dtype(type))
    x = wide(a)
    expected = np.stack([x.argmax(1), x.argmin(1), x.argmax(0)]).astype(np.int32)
    arguments = dict(a=a, out=filled("i32", (3, n)), rows=n, ROWS=n, COLUMNS=n)
    return Launch(arg_extrema_kernel, arguments, dict(out=expected))


@triton.jit
def sum_2d_kernel(a, by_row, by_column, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    x = tl.load(a + row[:, None] * COLUMNS + column[None, :])
    tl.store(by_row + row, tl.sum(x, 1))
    tl.store(by_column + column, tl.sum(x, 0))


@case(type=["f32", "i64"], shape=["64x32", "4x512", "128x16"], warps=[1, 8])
def sum_2d(type, shape, warps):
    rows, columns = map(int, shape.split("x"))
    a = np.random.default_rng(3).integers(-100, 100, (rows, columns)).astype(dtype(type))
    arguments = dict(a=a, by_row=filled(type, rows), by_column=filled(type, columns), ROWS=rows, COLUMNS=columns)
    expected = dict(by_row=a.sum(1, dtype=a.dtype), by_column=a.sum(0, dtype=a.dtype))
    return Launch(sum_2d_kernel, arguments, expected, warps=warps)


@triton.jit
def reduce_3d_kernel(a, out, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    i, j, k = tl.arange(0, A), tl.arange(0, B), tl.arange(0, C)
    x = tl.load(a + (i[:, None, None] * B + j[None, :, None]) * C + k[None, None, :])
    tl.store(out + i[:, None] * C + k[None, :], tl.max(x, 1))


@case(type=["i32", "f16"])
def max_3d(type):
    a = random(type, (8, 16, 32))
    arguments = dict(a=a, out=filled(type, (8, 32)), A=8, B=16, C=32)
    return Launch(reduce_3d_kernel, arguments, dict(out=a.max(1)))


@triton.jit
def bits_kernel(a, out, BLOCK: tl.constexpr):
    x = tl.load(a + tl.arange(0, BLOCK))
    tl.store(out, tl.xor_sum(x, 0))
    tl.store(out + 1, tl.reduce_or(x, 0))
    tl.store(out + 2, tl.sum((x > 0).to(tl.int32), 0))


@case(warps=[1, 2, 4, 8])
def bit_reductions(warps):
    a = random("i32", 2048) & 0x00FFFF0F
    expected = np.array([np.bitwise_xor.reduce(a), np.bitwise_or.reduce(a), (a > 0).sum()], np.int32)
    return Launch(bits_kernel, dict(a=a, out=filled("i32", 3), BLOCK=2048), dict(out=expected), warps=warps)


@triton.jit
def combine_moments(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
    # Rounds the same when its sides are exchanged: lanes combine in both orders, and all store the result to one word.
    count = count_a + count_b
    delta = mean_b - mean_a
    mean = (mean_a * count_a + mean_b * count_b) / count
    return mean, m2_a + m2_b + delta * delta * (count_a * count_b) / count, count


@triton.jit
def moments_kernel(a, mean, variance, columns, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    x = tl.load(a + row * columns + tl.arange(0, COLUMNS))
    m, m2, count = tl.reduce((x, tl.zeros_like(x), tl.full(x.shape, 1.0, x.dtype)), 0, combine_moments)
    tl.store(mean + row, m)
    tl.store(variance + row, m2 / count)


@case(warps=[1, 4])
def moments(warps):
    a = random("f32", (6, 512))
    arguments = dict(a=a, mean=filled("f32", 6), variance=filled("f32", 6), columns=512, COLUMNS=512)
    expected = dict(mean=wide(a).mean(1).astype(np.float32), variance=wide(a).var(1).astype(np.float32))
    return Launch(moments_kernel, arguments, expected, grid=(6,), warps=warps, relative=1e-4, absolute=1e-5)


@triton.jit
def sum_loop_kernel(a, out, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(a + at, at < n, other=0.0)
    tl.store(out, tl.sum(total, 0))


@case(stages=[1, 2, 3])
def sum_loop(stages):
    a = np.random.default_rng(4).integers(-8, 9, 5000).astype(np.float32)
    arguments = dict(a=a, out=filled("f32", 1), n=5000, BLOCK=512)
    return Launch(sum_loop_kernel, arguments, dict(out=np.array([a.sum()])), stages=stages)


@triton.jit
def matrix_vector_kernel(a, x, out, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, columns, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        block = tl.load(a + row[:, None] * columns + column[None, :])
        total += tl.sum(block * tl.load(x + column)[None, :], 1)
    tl.store(out + row, total)


@case(warps=[1, 4], stages=[1, 2])
def matrix_vector(warps, stages):
    generator = np.random.default_rng(5)
    a, x = generator.integers(-8, 9, (64, 256)).astype(np.float32), generator.integers(-8, 9, 256).astype(np.float32)
    arguments = dict(a=a, x=x, out=filled("f32", 64), columns=256, ROWS=16, COLUMNS=64)
    return Launch(matrix_vector_kernel, arguments, dict(out=a @ x), grid=(4,), warps=warps, stages=stages)
