# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Normalizations of rows, and losses."""

import numpy as np
import triton
import triton.language as tl
from cases import EPSILON, Launch, case, dtype, filled, random, wide


def softmax_of(x):
    powers = np.exp(wide(x) - wide(x).max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@triton.jit
def softmax_kernel(x, out, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    mask = column < columns
    value = tl.load(x + row * columns + column, mask, other=-float("inf")).to(tl.float32)
    power = tl.exp(value - tl.max(value, 0))
    tl.store(out + row * columns + column, (power / tl.sum(power, 0)).to(out.dtype.element_ty), mask)


@case(type=["f16", "bf16", "f32"], columns=[37, 1000], warps=[1, 8])
def softmax(type, columns, warps):
    x = random(type, (5, columns))
    block = triton.next_power_of_2(columns)
    arguments = dict(x=x, out=filled(type, x.shape), columns=columns, BLOCK=block)
    expected = dict(out=softmax_of(x).astype(dtype(type)))
    close = dict(relative=EPSILON[type] + 1e-5, absolute=1e-7)
    return Launch(softmax_kernel, arguments, expected, grid=(5,), warps=warps, **close)


@triton.jit
def online_softmax_kernel(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    largest, total = -float("inf"), 0.0
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * columns + column, column < columns, other=-float("inf"))
        following = tl.maximum(largest, tl.max(value, 0))
        total = total * tl.exp(largest - following) + tl.sum(tl.exp(value - following), 0)
        largest = following
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * columns + column, column < columns)
        tl.store(out + row * columns + column, tl.exp(value - largest) / total, column < columns)


@case(stages=[1, 2, 3])
def online_softmax(stages):
    x = random("f32", (4, 700))
    arguments = dict(x=x, out=filled("f32", x.shape), columns=700, BLOCK=256)
    expected = dict(out=softmax_of(x).astype(np.float32))
    return Launch(online_softmax_kernel, arguments, expected, grid=(4,), stages=stages, relative=1e-5, absolute=1e-8)


@triton.jit
def layer_norm_kernel(x, weight, bias, out, mean, rstd, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    mask = column < columns
    value = tl.load(x + row * columns + column, mask, other=0.0).to(tl.float32)
    average = tl.sum(value, 0) / columns
    centered = tl.where(mask, value - average, 0.0)
    inverse = 1 / tl.sqrt(tl.sum(centered * centered, 0) / columns + 1e-5)
    scaled = centered * inverse * tl.load(weight + column, mask) + tl.load(bias + column, mask)
    tl.store(out + row * columns + column, scaled.to(out.dtype.element_ty), mask)
    tl.store(mean + row, average)
    tl.store(rstd + row, inverse)


def layer_norm_of(x):
    mean, variance = wide(x).mean(1), wide(x).var(1)
    rstd = 1 / np.sqrt(variance + 1e-5)
    return mean, rstd, (wide(x) - mean[:, None]) * rstd[:, None]


@case(type=["f16", "bf16", "f32"], warps=[1, 8])
def layer_norm(type, warps):
    rows, columns = 5, 300
    x, weight, bias = random(type, (rows, columns)), random("f32", columns, 1), random("f32", columns, 2)
    mean, rstd, normal = layer_norm_of(x)
    arguments = dict(x=x, weight=weight, bias=bias, out=filled(type, x.shape), mean=filled("f32", rows),
                     rstd=filled("f32", rows), columns=columns, BLOCK=512)  # fmt: skip
    expected = dict(out=(normal * weight + bias).astype(dtype(type)), mean=mean.astype(np.float32), rstd=rstd.astype(np.float32))
    close = dict(relative=EPSILON[type] + 1e-5, absolute=2e-6)
    return Launch(layer_norm_kernel, arguments, expected, grid=(rows,), warps=warps, **close)


@triton.jit
def layer_norm_gradient_kernel(
    dx, dy, dw, db, x, weight, mean, rstd, lock, columns, GROUPS: tl.constexpr, BLOCK: tl.constexpr
):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    mask = column < columns
    value = tl.load(x + row * columns + column, mask, other=0.0)
    slope = tl.load(dy + row * columns + column, mask, other=0.0)
    scale = tl.load(weight + column, mask, other=0.0)
    inverse = tl.load(rstd + row)
    normal = tl.where(mask, (value - tl.load(mean + row)) * inverse, 0.0)
    weighted = tl.where(mask, scale * slope, 0.0)
    first = tl.sum(normal * weighted, 0) / columns
    second = tl.sum(weighted, 0) / columns
    tl.store(dx + row * columns + column, (weighted - (normal * first + second)) * inverse, mask)
    # Rows of the same group add to one row of partial sums, under a lock; the first of them only writes it.
    group = row % GROUPS
    count = lock + GROUPS + group
    while tl.atomic_cas(lock + group, 0, 1) == 1:
        pass
    dw_at, db_at = dw + group * columns + column, db + group * columns + column
    partial_w, partial_b = slope * normal, slope
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        partial_w += tl.load(dw_at, mask)
        partial_b += tl.load(db_at, mask)
    tl.store(dw_at, partial_w, mask)
    tl.store(db_at, partial_b, mask)
    # All lanes have stored before the lock is free.
    tl.debug_barrier()
    tl.atomic_xchg(lock + group, 0)


@case(warps=[1, 4, 8])
def layer_norm_gradient(warps):
    # The block has an element for each lane, at least: lanes beyond would load elements that others store.
    rows, columns, groups = 8, 300, 2
    x, dy, weight = random("f32", (rows, columns)), random("f32", (rows, columns), 1), random("f32", columns, 2)
    mean, rstd, normal = layer_norm_of(x)
    weighted = wide(weight) * wide(dy)
    first, second = (normal * weighted).mean(1, keepdims=True), weighted.mean(1, keepdims=True)
    dx = (weighted - (normal * first + second)) * rstd[:, None]
    dw = np.stack([(dy * normal)[group::groups].sum(0) for group in range(groups)])
    db = np.stack([wide(dy)[group::groups].sum(0) for group in range(groups)])
    lock = np.zeros(2 * groups, np.int32)
    single = lambda array: array.astype(np.float32)  # noqa: E731
    arguments = dict(dx=filled("f32", x.shape), dy=dy, dw=filled("f32", dw.shape), db=filled("f32", db.shape), x=x,
                     weight=weight, mean=single(mean), rstd=single(rstd), lock=lock, columns=columns, GROUPS=groups,
                     BLOCK=512)  # fmt: skip
    expected = dict(dx=single(dx), dw=single(dw), db=single(db), lock=np.array([0] * groups + [1] * groups, np.int32))
    return Launch(layer_norm_gradient_kernel, arguments, expected, grid=(rows,), warps=warps, relative=1e-4, absolute=1e-5)


@triton.jit
def sum_groups_kernel(partial, out, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)
        mask = (row[:, None] < rows) & (column[None, :] < columns)
        total += tl.load(partial + row[:, None] * columns + column[None, :], mask, other=0.0)
    tl.store(out + column, tl.sum(total, 0), column < columns)


@case(warps=[1, 4])
def sum_groups(warps):
    partial = np.random.default_rng(3).integers(-9, 10, (50, 100)).astype(np.float32)
    arguments = dict(partial=partial, out=filled("f32", 100), rows=50, columns=100, ROWS=16, BLOCK=64)
    return Launch(sum_groups_kernel, arguments, dict(out=partial.sum(0)), grid=(2,), warps=warps)


@triton.jit
def rms_norm_kernel(x, weight, out, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    mask = column < columns
    value = tl.load(x + row * columns + column, mask, other=0.0).to(tl.float32)
    inverse = tl.rsqrt(tl.sum(value * value, 0) / columns + 1e-6)
    tl.store(out + row * columns + column, (value * inverse * tl.load(weight + column, mask)).to(out.dtype.element_ty), mask)


@case(type=["f16", "bf16"], warps=[2, 8])
def rms_norm(type, warps):
    x, weight = random(type, (4, 500)), random("f32", 500, 1)
    expected = wide(x) / np.sqrt((wide(x) ** 2).mean(1, keepdims=True) + 1e-6) * weight
    arguments = dict(x=x, weight=weight, out=filled(type, x.shape), columns=500, BLOCK=512)
    close = dict(relative=EPSILON[type] + 1e-5, absolute=1e-6)
    return Launch(rms_norm_kernel, arguments, dict(out=expected.astype(dtype(type))), grid=(4,), warps=warps, **close)


@triton.jit
def cross_entropy_kernel(logits, label, loss, gradient, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    mask = column < columns
    value = tl.load(logits + row * columns + column, mask, other=-float("inf"))
    largest = tl.max(value, 0)
    power = tl.exp(value - largest)
    total = tl.sum(power, 0)
    target = tl.load(label + row)
    chosen = tl.sum(tl.where(column == target, value, 0.0), 0)
    tl.store(loss + row, tl.log(total) + largest - chosen)
    tl.store(gradient + row * columns + column, power / total - tl.where(column == target, 1.0, 0.0), mask)


@case(warps=[1, 4])
def cross_entropy(warps):
    logits, label = random("f32", (6, 200)), random("i64", 6, 1, 0, 199)
    chance = softmax_of(logits)
    rows = np.arange(6)
    loss = -np.log(chance[rows, label])
    chance[rows, label] -= 1
    arguments = dict(logits=logits, label=label, loss=filled("f32", 6), gradient=filled("f32", logits.shape), columns=200, BLOCK=256)
    expected = dict(loss=loss.astype(np.float32), gradient=chance.astype(np.float32))
    return Launch(cross_entropy_kernel, arguments, expected, grid=(6,), warps=warps, relative=1e-5, absolute=1e-6)
