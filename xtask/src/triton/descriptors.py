# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Kernels that reach memory by tensor descriptors: gfx1250 has an engine for them."""

import numpy as np
import triton
import triton.language as tl
from cases import Launch, case, dtype, filled, random, wide
from matmul import small_integers


@triton.jit
def copy_kernel(a, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    source = tl.make_tensor_descriptor(a, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    target.store([row, column], source.load([row, column]))


@case(type=["i8", "f16", "f32", "i64"], warps=[1, 4])
def descriptor_copy(type, warps):
    a = random(type, (50, 80))
    arguments = dict(a=a, out=filled(type, a.shape), rows=50, columns=80, ROWS=32, COLUMNS=32)
    return Launch(copy_kernel, arguments, dict(out=a.copy()), grid=(2, 3), warps=warps)


@triton.jit
def pad_kernel(a, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    source = tl.make_tensor_descriptor(a, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    x = source.load([rows - ROWS // 2, columns - COLUMNS // 2])
    tl.store(out + tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :], x)


@case(type=["f16", "f32", "i8"])
def descriptor_padding(type):
    a = random(type, (40, 48))
    expected = np.zeros((32, 32), a.dtype)
    expected[:16, :16] = a[24:, 32:]
    arguments = dict(a=a, out=filled(type, (32, 32)), rows=40, columns=48, ROWS=32, COLUMNS=32)
    return Launch(pad_kernel, arguments, dict(out=expected))


@triton.jit
def copy_3d_kernel(a, out, depth, rows, columns, D: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    plane = rows * columns
    source = tl.make_tensor_descriptor(a, [depth, rows, columns], [plane, columns, 1], [D, R, C])
    target = tl.make_tensor_descriptor(out, [depth, rows, columns], [plane, columns, 1], [D, R, C])
    layer, row = tl.program_id(0) * D, tl.program_id(1) * R
    target.store([layer, row, 0], source.load([layer, row, 0]))


@case(type=["f16", "f32"])
def descriptor_copy_3d(type):
    a = random(type, (5, 20, 16))
    arguments = dict(a=a, out=filled(type, a.shape), depth=5, rows=20, columns=16, D=2, R=8, C=16)
    return Launch(copy_3d_kernel, arguments, dict(out=a.copy()), grid=(3, 3))


@triton.jit
def descriptor_matmul_kernel(a, b, out, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [m, k], [k, 1], [M, K])
    right = tl.make_tensor_descriptor(b, [k, n], [n, 1], [K, N])
    target = tl.make_tensor_descriptor(out, [m, n], [n, 1], [M, N])
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), tl.int32 if a.dtype.element_ty == tl.int8 else tl.float32)
    for start in range(0, k, K):
        total = tl.dot(left.load([row, start]), right.load([start, column]), total)
    target.store([row, column], total.to(out.dtype.element_ty))


@case(type=["f16", "bf16", "i8", "e4m3", "f32"], warps=[1, 4], stages=[1, 3])
def descriptor_matmul(type, warps, stages):
    a, b = small_integers(type, (64, 128), 1), small_integers(type, (128, 64), 2)
    out = "i32" if type == "i8" else "f32"
    arguments = dict(a=a, b=b, out=filled(out, (64, 64)), m=64, n=64, k=128, M=32, N=32, K=32)
    expected = (wide(a) @ wide(b)).astype(dtype(out))
    return Launch(descriptor_matmul_kernel, arguments, dict(out=expected), grid=(2, 2), warps=warps, stages=stages)


@triton.jit
def gather_rows_kernel(a, index, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    source = tl.make_tensor_descriptor(a, [rows, columns], [columns, 1], [1, COLUMNS])
    row = tl.arange(0, ROWS)
    x = source.gather(tl.load(index + row), 0)
    tl.store(out + row[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :], x)


@case(type=["f16", "f32"])
def descriptor_gather(type):
    a, index = random(type, (60, 64)), random("i32", 32, 1, 0, 59)
    arguments = dict(a=a, index=index, out=filled(type, (32, 64)), rows=60, columns=64, ROWS=32, COLUMNS=64)
    return Launch(gather_rows_kernel, arguments, dict(out=a[index]))


@triton.jit
def scatter_rows_kernel(a, index, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [1, COLUMNS])
    row = tl.arange(0, ROWS)
    x = tl.load(a + row[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :])
    target.scatter(x, tl.load(index + row), 0)


@case(type=["f16", "f32"])
def descriptor_scatter(type):
    a = random(type, (32, 64))
    index = np.random.default_rng(4).permutation(60)[:32].astype(np.int32)
    out = filled(type, (60, 64))
    expected = out.copy()
    expected[index] = a
    arguments = dict(a=a, index=index, out=out, rows=60, columns=64, ROWS=32, COLUMNS=64)
    return Launch(scatter_rows_kernel, arguments, dict(out=expected))


@triton.jit
def descriptor_reduce_kernel(a, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    x = tl.load(a + tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :])
    target.atomic_add([0, 0], x)


@case(type=["i32", "f32"])
def descriptor_add(type):
    a, out = small_integers(type, (16, 32), 1), small_integers(type, (16, 32), 2)
    arguments = dict(a=a, out=out, rows=16, columns=32, ROWS=16, COLUMNS=32)
    return Launch(descriptor_reduce_kernel, arguments, dict(out=out + 4 * a), grid=(4,))
