# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Kernels that move elements between the places of a block."""

import numpy as np
import triton
import triton.language as tl
from cases import Launch, case, filled, random


@triton.jit
def transpose_kernel(a, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(a + row[:, None] * columns + column[None, :], (row[:, None] < rows) & (column[None, :] < columns))
    mask = (column[:, None] < columns) & (row[None, :] < rows)
    tl.store(out + column[:, None] * rows + row[None, :], tl.trans(x), mask)


@case(type=["i8", "f16", "f32", "i64"], warps=[1, 8])
def transpose(type, warps):
    a = random(type, (50, 70))
    arguments = dict(a=a, out=filled(type, (70, 50)), rows=50, columns=70, ROWS=32, COLUMNS=64)
    return Launch(transpose_kernel, arguments, dict(out=a.T.copy()), grid=(2, 2), warps=warps)


@triton.jit
def permute_kernel(a, out, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    i, j, k = tl.arange(0, A), tl.arange(0, B), tl.arange(0, C)
    x = tl.load(a + (i[:, None, None] * B + j[None, :, None]) * C + k[None, None, :])
    at = (k[:, None, None] * A + i[None, :, None]) * B + j[None, None, :]
    tl.store(out + at, tl.permute(x, (2, 0, 1)))


@case(type=["i8", "i32", "f16"])
def permute(type):
    a = random(type, (8, 16, 32))
    arguments = dict(a=a, out=filled(type, (32, 8, 16)), A=8, B=16, C=32)
    return Launch(permute_kernel, arguments, dict(out=a.transpose(2, 0, 1).copy()))


@triton.jit
def interleave_kernel(a, b, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + tl.arange(0, 2 * BLOCK), tl.interleave(tl.load(a + at), tl.load(b + at)))


@case(type=["i8", "f16", "f32", "i64"])
def interleave(type):
    a, b = random(type, 512), random(type, 512, 1)
    arguments = dict(a=a, b=b, out=filled(type, 1024), BLOCK=512)
    return Launch(interleave_kernel, arguments, dict(out=np.stack([a, b], 1).reshape(-1)))


@triton.jit
def join_split_kernel(a, b, joined, even, odd, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    pairs = tl.join(tl.load(a + at), tl.load(b + at))
    tl.store(joined + at[:, None] * 2 + tl.arange(0, 2)[None, :], pairs)
    first, second = tl.split(tl.reshape(tl.permute(pairs, (1, 0)), (BLOCK, 2)))
    tl.store(even + at, first)
    tl.store(odd + at, second)


@case(type=["i16", "f32"], warps=[1, 4])
def join_split(type, warps):
    a, b = random(type, 256), random(type, 256, 1)
    arguments = dict(a=a, b=b, joined=filled(type, (256, 2)), even=filled(type, 256), odd=filled(type, 256), BLOCK=256)
    pairs = np.concatenate([a, b]).reshape(256, 2)
    expected = dict(joined=np.stack([a, b], 1), even=pairs[:, 0].copy(), odd=pairs[:, 1].copy())
    return Launch(join_split_kernel, arguments, expected, warps=warps)


@triton.jit
def reshape_kernel(a, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    x = tl.reshape(tl.load(a + at), (COLUMNS, ROWS))
    turned = tl.arange(0, COLUMNS)[:, None] * ROWS + tl.arange(0, ROWS)[None, :]
    tl.store(out + turned, x + tl.arange(0, COLUMNS)[:, None].to(x.dtype))


@case(type=["i16", "i32"], warps=[1, 4])
def reshape(type, warps):
    a = random(type, (16, 64))
    arguments = dict(a=a, out=filled(type, (64, 16)), ROWS=16, COLUMNS=64)
    expected = a.reshape(64, 16) + np.arange(64, dtype=a.dtype)[:, None]
    return Launch(reshape_kernel, arguments, dict(out=expected), warps=warps)


@triton.jit
def flip_kernel(a, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + at, tl.flip(tl.load(a + at), 1))


@case(type=["i8", "f32"], warps=[1, 4])
def flip(type, warps):
    a = random(type, (8, 128))
    arguments = dict(a=a, out=filled(type, a.shape), ROWS=8, COLUMNS=128)
    return Launch(flip_kernel, arguments, dict(out=a[:, ::-1].copy()), warps=warps)


@triton.jit
def concatenate_kernel(a, b, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    both = tl.cat(tl.load(a + at), tl.load(b + at), can_reorder=True)
    tl.store(out, tl.sum(both, 0))


@case()
def concatenate():
    a, b = random("i32", 256), random("i32", 256, 1)
    expected = np.array([a.sum(dtype=np.int32) + b.sum(dtype=np.int32)], np.int32)
    return Launch(concatenate_kernel, dict(a=a, b=b, out=filled("i32", 1), BLOCK=256), dict(out=expected))


@triton.jit
def rotate_kernel(x, cosine, sine, out, HALF: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, HALF)
    pair = row * 2 * HALF + 2 * column[:, None] + tl.arange(0, 2)[None, :]
    a, b = tl.split(tl.load(x + pair))
    c, s = tl.load(cosine + row * HALF + column), tl.load(sine + row * HALF + column)
    tl.store(out + pair, tl.join(a * c - b * s, a * s + b * c))


@case(type=["f16", "f32"])
def rotary_embedding(type):
    rows, half = 6, 64
    x, angle = random(type, (rows, half, 2)), np.random.default_rng(1).uniform(0, 6, (rows, half))
    cosine, sine = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    a, b = x[..., 0], x[..., 1]
    expected = np.stack([a * cosine - b * sine, a * sine + b * cosine], -1)
    arguments = dict(x=x, cosine=cosine, sine=sine, out=filled(type, x.shape), HALF=half)
    return Launch(rotate_kernel, arguments, dict(out=expected), grid=(rows,))
