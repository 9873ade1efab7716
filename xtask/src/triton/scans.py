# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Scans, sorts, histograms and gathers."""

import numpy as np
import triton
import triton.language as tl
from cases import Launch, case, dtype, filled, random


@triton.jit
def cumsum_kernel(a, out, REVERSE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.cumsum(tl.load(a + at), 0, reverse=REVERSE))


@case(type=["i32", "i64"], reverse=[0, 1], warps=[1, 4])
def cumsum(type, reverse, warps):
    a = np.random.default_rng(1).integers(-100, 100, 1024).astype(dtype(type))
    expected = a[::-1].cumsum(dtype=a.dtype)[::-1].copy() if reverse else a.cumsum(dtype=a.dtype)
    arguments = dict(a=a, out=filled(type, 1024), REVERSE=bool(reverse), BLOCK=1024)
    return Launch(cumsum_kernel, arguments, dict(out=expected), warps=warps)


@triton.jit
def cumprod_2d_kernel(a, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, AXIS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + at, tl.cumprod(tl.load(a + at), AXIS))


@case(axis=[0, 1], warps=[1, 4])
def cumprod_2d(axis, warps):
    a = random("i32", (32, 64))
    arguments = dict(a=a, out=filled("i32", a.shape), ROWS=32, COLUMNS=64, AXIS=axis)
    return Launch(cumprod_2d_kernel, arguments, dict(out=a.cumprod(axis, dtype=np.int32)), warps=warps)


@triton.jit
def combine_linear(a, x, b, y):
    return a * b, x * b + y


@triton.jit
def recurrence_kernel(a, x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    _, result = tl.associative_scan((tl.load(a + at), tl.load(x + at)), 0, combine_linear)
    tl.store(out + at, result)


@case(warps=[1, 2, 8])
def recurrence(warps):
    n = 512
    a, x = random("f32", n, 0, 0.0, 1.0), random("f32", n, 1)
    expected, value = np.empty(n), 0.0
    for at in range(n):
        value = value * float(a[at]) + float(x[at])
        expected[at] = value
    arguments = dict(a=a, x=x, out=filled("f32", n), BLOCK=n)
    return Launch(recurrence_kernel, arguments, dict(out=expected.astype(np.float32)), warps=warps, relative=1e-4, absolute=1e-4)


@triton.jit
def combine_max(value_a, index_a, value_b, index_b):
    later = value_b > value_a
    return tl.where(later, value_b, value_a), tl.where(later, index_b, index_a)


@triton.jit
def running_max_kernel(a, out, index, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value, where = tl.associative_scan((tl.load(a + at), at), 0, combine_max)
    tl.store(out + at, value)
    tl.store(index + at, where)


@case(type=["i32", "f32"])
def running_max(type):
    a = random(type, 512)
    expected = np.maximum.accumulate(a)
    index = np.array([np.argmax(a[: at + 1]) for at in range(512)], np.int32)
    arguments = dict(a=a, out=filled(type, 512), index=filled("i32", 512), BLOCK=512)
    return Launch(running_max_kernel, arguments, dict(out=expected, index=index))


@triton.jit
def sort_kernel(a, out, DESCENDING: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + at, tl.sort(tl.load(a + at), descending=DESCENDING))


@case(type=["i8", "i16", "i32", "i64", "u32", "f16", "f32"])
def sort(type):
    a = random(type, (4, 128))
    arguments = dict(a=a, out=filled(type, a.shape), DESCENDING=False, ROWS=4, COLUMNS=128)
    return Launch(sort_kernel, arguments, dict(out=np.sort(a, 1)))


@case(type=["i32", "f32"])
def sort_descending(type):
    a = random(type, (2, 256))
    arguments = dict(a=a, out=filled(type, a.shape), DESCENDING=True, ROWS=2, COLUMNS=256)
    return Launch(sort_kernel, arguments, dict(out=np.sort(a, 1)[:, ::-1].copy()))


@triton.jit
def top_kernel(a, out, K: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.arange(0, ROWS)[:, None]
    x = tl.load(a + row * COLUMNS + tl.arange(0, COLUMNS)[None, :])
    tl.store(out + row * K + tl.arange(0, K)[None, :], tl.topk(x, K))


@case(type=["i32", "f32"], k=[1, 8])
def top(type, k):
    a = random(type, (8, 128))
    arguments = dict(a=a, out=filled(type, (8, k)), K=k, ROWS=8, COLUMNS=128)
    return Launch(top_kernel, arguments, dict(out=np.sort(a, 1)[:, ::-1][:, :k].copy()))


@triton.jit
def histogram_kernel(a, out, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + tl.arange(0, BINS), tl.histogram(tl.load(a + at, mask, other=0), BINS, mask=mask))


@case(bins=[8, 64, 512], warps=[1, 4])
def histogram(bins, warps):
    n = 900
    a = random("i32", n, 0, 0, bins - 1)
    arguments = dict(a=a, out=filled("i32", bins), n=n, BLOCK=1024, BINS=bins)
    expected = np.bincount(a, minlength=bins).astype(np.int32)
    return Launch(histogram_kernel, arguments, dict(out=expected), warps=warps)


@triton.jit
def gather_kernel(a, index, out, AXIS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + at, tl.gather(tl.load(a + at), tl.load(index + at), AXIS))


@case(type=["i32", "f16", "i64"], axis=[0, 1])
def gather(type, axis):
    shape = (32, 64)
    a = random(type, shape)
    index = random("i32", shape, 1, 0, shape[axis] - 1)
    arguments = dict(a=a, index=index, out=filled(type, shape), AXIS=axis, ROWS=32, COLUMNS=64)
    return Launch(gather_kernel, arguments, dict(out=np.take_along_axis(a, index, axis)))


@triton.jit
def indirect_kernel(table, index, out, width, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    source = tl.load(index + row)
    mask = column[None, :] < width
    tl.store(out + row[:, None] * width + column[None, :], tl.load(table + source[:, None] * width + column[None, :], mask), mask)


@case(type=["f16", "f32"])
def embedding(type):
    table, index = random(type, (100, 50)), random("i64", 32, 1, 0, 99)
    arguments = dict(table=table, index=index, out=filled(type, (32, 50)), width=50, WIDTH=64, ROWS=8)
    return Launch(indirect_kernel, arguments, dict(out=table[index]), grid=(4,))


@triton.jit
def compact_kernel(a, out, count, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(a + at, at < n, other=-1)
    keep = x >= 0
    place = tl.cumsum(keep.to(tl.int32), 0) - 1
    tl.store(out + place, x, keep)
    tl.store(count, tl.sum(keep.to(tl.int32), 0))


@case(warps=[1, 4])
def compact(warps):
    a = random("i32", 900)
    kept = a[a >= 0]
    out = filled("i32", 1024)
    expected = out.copy()
    expected[: len(kept)] = kept
    arguments = dict(a=a, out=out, count=filled("i32", 1), n=900, BLOCK=1024)
    return Launch(compact_kernel, arguments, dict(out=expected, count=np.array([len(kept)], np.int32)), warps=warps)


@triton.jit
def selective_scan_kernel(x, decay, out, length, CHANNELS: tl.constexpr):
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    channels = tl.num_programs(0) * CHANNELS
    state = tl.zeros((CHANNELS,), tl.float32)
    rate = tl.load(decay + channel)
    for step in range(length):
        state = state * rate + tl.load(x + step * channels + channel)
        tl.store(out + step * channels + channel, state)


@case(stages=[1, 3])
def selective_scan(stages):
    x, decay = random("f32", (20, 256)), random("f32", 256, 1, 0.0, 1.0)
    state, rows = np.zeros(256, np.float32), []
    for row in x:
        state = state * decay + row
        rows.append(state)
    arguments = dict(x=x, decay=decay, out=filled("f32", x.shape), length=20, CHANNELS=64)
    return Launch(selective_scan_kernel, arguments, dict(out=np.stack(rows)), grid=(4,), warps=2, stages=stages)
