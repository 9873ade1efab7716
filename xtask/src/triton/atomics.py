# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Kernels whose workgroups share words of memory."""

import numpy as np
import triton
import triton.language as tl
from cases import Launch, case, dtype, filled, random


@triton.jit
def atomic_add_kernel(a, out, n, bins, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.atomic_add(out + at % bins, tl.load(a + at, mask), mask)


@case(type=["i32", "i64", "f16", "bf16", "f32", "f64"], bins=[1, 7, 256])
def atomic_add(type, bins):
    n = 1000
    generator = np.random.default_rng(1)
    # Sums of small integers are exact in any order.
    a = generator.integers(-1, 2, n).astype(dtype(type))
    first = generator.integers(0, 9, bins).astype(dtype(type))
    expected = first.astype(np.float64)
    np.add.at(expected, np.arange(n) % bins, a.astype(np.float64))
    arguments = dict(a=a, out=first, n=n, bins=bins, BLOCK=256)
    return Launch(atomic_add_kernel, arguments, dict(out=expected.astype(a.dtype)), grid=(4,))


@triton.jit
def atomic_bits_kernel(a, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, to = tl.load(a + at), out + at * 0
    tl.atomic_and(to, x)
    tl.atomic_or(to + 1, x)
    tl.atomic_xor(to + 2, x)
    tl.atomic_max(to + 3, x)
    tl.atomic_min(to + 4, x)


@case(type=["i32", "u32", "i64", "u64"])
def atomic_bits(type):
    a = random(type, 512)
    first = random(type, 5, 1)
    x = a
    expected = np.array([
        np.bitwise_and.reduce(x) & first[0], np.bitwise_or.reduce(x) | first[1], np.bitwise_xor.reduce(x) ^ first[2],
        max(x.max(), first[3]), min(x.min(), first[4]),
    ], a.dtype)  # fmt: skip
    return Launch(atomic_bits_kernel, dict(a=a, out=first, BLOCK=128), dict(out=expected), grid=(4,))


@triton.jit
def atomic_extrema_kernel(a, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, to = tl.load(a + at), out + at * 0
    tl.atomic_max(to, x)
    tl.atomic_min(to + 1, x)


@case(type=["f32", "f64"])
def atomic_extrema(type):
    a = random(type, 512)
    first = np.array([-0.5, 0.5], a.dtype)
    expected = np.array([a.max(), a.min()])
    return Launch(atomic_extrema_kernel, dict(a=a, out=first, BLOCK=128), dict(out=expected), grid=(4,))


@triton.jit
def atomic_scalar_kernel(counter, order, BLOCK: tl.constexpr):
    ticket = tl.atomic_add(counter, 1)
    tl.store(order + ticket * BLOCK + tl.arange(0, BLOCK), ticket)


@case(warps=[1, 4, 8])
def tickets(warps):
    expected = np.repeat(np.arange(16, dtype=np.int32), 64)
    arguments = dict(counter=np.zeros(1, np.int32), order=filled("i32", 1024), BLOCK=64)
    return Launch(atomic_scalar_kernel, arguments, dict(counter=np.array([16], np.int32), order=expected), grid=(16,), warps=warps)


@triton.jit
def exchange_kernel(a, out, old, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(old + at, tl.atomic_xchg(out + at, tl.load(a + at)))


@case(type=["i32", "i64", "f32"])
def exchange(type):
    a, before = random(type, 256), random(type, 256, 1)
    arguments = dict(a=a, out=before, old=filled(type, 256), BLOCK=256)
    return Launch(exchange_kernel, arguments, dict(out=a, old=before.copy()))


@triton.jit
def compare_exchange_kernel(expected, replacement, out, old, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(old + at, tl.atomic_cas(out + at, tl.load(expected + at), tl.load(replacement + at)))


@case(type=["i32", "i64", "u64"])
def compare_exchange(type):
    before, replacement = random(type, 256), random(type, 256, 1)
    expected = np.where(np.arange(256) % 3 == 0, replacement, before)
    after = np.where(expected == before, replacement, before)
    arguments = dict(expected=expected, replacement=replacement, out=before, old=filled(type, 256), BLOCK=256)
    return Launch(compare_exchange_kernel, arguments, dict(out=after, old=before.copy()))


@triton.jit
def lock_kernel(lock, data, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(data + at, tl.load(data + at) + 1)
    # All lanes have stored before the lock is free.
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@case(warps=[1, 2, 4, 8])
def lock(warps):
    # As many elements as lanes: lanes beyond would load elements that others store, and drop them.
    n = 64 * warps
    arguments = dict(lock=np.zeros(1, np.int32), data=np.arange(n, dtype=np.int32), BLOCK=n)
    expected = dict(lock=np.zeros(1, np.int32), data=np.arange(n, dtype=np.int32) + 8)
    return Launch(lock_kernel, arguments, expected, grid=(8,), warps=warps)


@triton.jit
def last_group_kernel(a, partial, counter, out, BLOCK: tl.constexpr, GROUPS: tl.constexpr):
    group = tl.program_id(0)
    tl.store(partial + group, tl.sum(tl.load(a + group * BLOCK + tl.arange(0, BLOCK)), 0))
    # The store of the one lane is ordered before the counter of the workgroup.
    tl.debug_barrier()
    if tl.atomic_add(counter, 1) == GROUPS - 1:
        tl.store(out, tl.sum(tl.load(partial + tl.arange(0, GROUPS), cache_modifier=".cv"), 0))
        tl.store(counter, 0)


@case(warps=[1, 4, 8])
def last_group(warps):
    a = random("i32", 16 * 256)
    arguments = dict(a=a, partial=filled("i32", 16), counter=np.zeros(1, np.int32), out=filled("i32", 1), BLOCK=256, GROUPS=16)
    partial = a.reshape(16, 256).sum(1, dtype=np.int32)
    expected = dict(partial=partial, counter=np.zeros(1, np.int32), out=np.array([a.sum(dtype=np.int32)]))
    return Launch(last_group_kernel, arguments, expected, grid=(16,), warps=warps)


@triton.jit
def global_histogram_kernel(a, out, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    counts = tl.histogram(tl.load(a + at, mask, other=0).to(tl.int32), BINS, mask=mask)
    tl.atomic_add(out + tl.arange(0, BINS), counts, sem="relaxed")


@case(warps=[1, 4])
def global_histogram(warps):
    a = random("u8", 3000)
    arguments = dict(a=a, out=np.zeros(256, np.int32), n=3000, BLOCK=1024, BINS=256)
    expected = dict(out=np.bincount(a, minlength=256).astype(np.int32))
    return Launch(global_histogram_kernel, arguments, expected, grid=(3,), warps=warps)


@triton.jit
def dot_product_kernel(a, b, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    product = tl.load(a + at, at < n, other=0.0) * tl.load(b + at, at < n, other=0.0)
    tl.atomic_add(out, tl.sum(product.to(tl.float32), 0))


@case(type=["f16", "f32"], warps=[1, 4, 8])
def dot_product(type, warps):
    generator = np.random.default_rng(6)
    a, b = generator.integers(-3, 4, 3000).astype(dtype(type)), generator.integers(-3, 4, 3000).astype(dtype(type))
    arguments = dict(a=a, b=b, out=np.zeros(1, np.float32), n=3000, BLOCK=512)
    expected = np.array([a.astype(np.float32) @ b.astype(np.float32)])
    return Launch(dot_product_kernel, arguments, dict(out=expected), grid=(6,), warps=warps)


@triton.jit
def look_back_kernel(a, out, state, ticket, BLOCK: tl.constexpr):
    # The ticket, not the place in the grid, is the order of workgroups: holders of lower tickets have begun.
    group = tl.atomic_add(ticket, 1)
    at = group * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(a + at)
    before = 0
    if group > 0:
        word = tl.atomic_add(state + group - 1, 0)
        while word == -1:
            word = tl.atomic_add(state + group - 1, 0)
        before = word
    tl.atomic_xchg(state + group, before + tl.sum(x, 0))
    tl.store(out + at, tl.cumsum(x, 0) + before)


@case(warps=[1, 4])
def chained_scan(warps):
    a = random("i32", 2048, 0, 0, 100)
    totals = a.reshape(8, 256).sum(1).cumsum().astype(np.int32)
    arguments = dict(a=a, out=filled("i32", 2048), state=np.full(8, -1, np.int32), ticket=np.zeros(1, np.int32), BLOCK=256)
    expected = dict(out=a.cumsum(dtype=np.int32), state=totals, ticket=np.array([8], np.int32))
    return Launch(look_back_kernel, arguments, expected, grid=(8,), warps=warps)
