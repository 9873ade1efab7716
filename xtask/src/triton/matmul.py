# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Products of matrices."""

import ml_dtypes
import numpy as np
import triton
import triton.language as tl
from cases import EPSILON, Launch, case, dtype, filled, random, wide


@triton.jit
def matmul_kernel(
    a, b, out, m, n, k, stride_am, stride_ak, stride_bk, stride_bn,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    # Blocks of GROUP rows together, so that those of `b` are used again soon.
    across, down = tl.cdiv(n, N), tl.cdiv(m, M)
    block_m, block_n = tl.swizzle2d(tl.program_id(0) // across, tl.program_id(0) % across, down, across, GROUP)
    row, column, inner = block_m * M + tl.arange(0, M), block_n * N + tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.int32 if a.dtype.element_ty == tl.int8 else tl.float32)
    for start in range(0, k, K):
        at = start + inner
        x = tl.load(a + row[:, None] * stride_am + at[None, :] * stride_ak, (row[:, None] < m) & (at[None, :] < k), other=0.0)
        y = tl.load(b + at[:, None] * stride_bk + column[None, :] * stride_bn, (at[:, None] < k) & (column[None, :] < n), other=0.0)
        total = tl.dot(x, y, total, input_precision=PRECISION)
    mask = (row[:, None] < m) & (column[None, :] < n)
    tl.store(out + row[:, None] * n + column[None, :], total.to(out.dtype.element_ty), mask)


def small_integers(type, shape, seed):
    """Numbers whose products have exact sums in any order, and in any type."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype(type))


def matmul_launch(type, m, n, k, block, warps, stages, transposed="nn", out=None, precision="ieee", exact=True):
    make = small_integers if exact else random
    out = out or ("i32" if type == "i8" else "f32")
    a, b = make(type, (m, k), 1), make(type, (k, n), 2)
    product = wide(a) @ wide(b)
    stored_a = a.T.copy() if transposed[0] == "t" else a
    stored_b = b.T.copy() if transposed[1] == "t" else b
    strides_a = (1, m) if transposed[0] == "t" else (k, 1)
    strides_b = (1, k) if transposed[1] == "t" else (n, 1)
    block_m, block_n, block_k = block
    arguments = dict(
        a=stored_a, b=stored_b, out=filled(out, (m, n)), m=m, n=n, k=k, stride_am=strides_a[0], stride_ak=strides_a[1],
        stride_bk=strides_b[0], stride_bn=strides_b[1], M=block_m, N=block_n, K=block_k, GROUP=2, PRECISION=precision,
    )  # fmt: skip
    close = {} if exact else dict(relative=1e-4 + EPSILON[out], absolute=1e-3)
    grid = (-(-m // block_m) * -(-n // block_n),)
    expected = product.astype(dtype(out))
    return Launch(matmul_kernel, arguments, dict(out=expected), grid=grid, warps=warps, stages=stages, **close)


@case(type=["f16", "bf16", "f32", "i8", "e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz"], warps=[1, 4])
def matmul(type, warps):
    return matmul_launch(type, 64, 64, 96, (32, 32, 32), warps, 2)


@case(type=["f16", "f32", "e5m2"])
def matmul_unpipelined(type):
    return matmul_launch(type, 64, 64, 96, (32, 32, 32), 4, 1)


@case(type=["f16", "bf16", "f32", "i8"], transposed=["nt", "tn"])
def matmul_transposed(type, transposed):
    return matmul_launch(type, 64, 64, 64, (32, 64, 32), 4, 2, transposed)


@case(type=["f16", "bf16", "f32", "i8"], warps=[2, 8])
def matmul_tail(type, warps):
    return matmul_launch(type, 50, 70, 45, (32, 32, 32), warps, 2)


@case(type=["f16", "e4m3", "i8"], stages=[3], warps=[4, 8])
def matmul_long(type, stages, warps):
    return matmul_launch(type, 64, 128, 320, (64, 64, 64), warps, stages)


@case(type=["f16", "bf16", "f32", "i8"], block=["16x16x16", "16x64x32", "16x16x128"])
def matmul_block(type, block):
    m, n, k = map(int, block.split("x"))
    return matmul_launch(type, m, n, 2 * k, (m, n, k), 1, 2)


@case(type=["f16", "bf16"], out=["f16", "bf16"])
def matmul_random(type, out):
    return matmul_launch(type, 64, 64, 64, (32, 32, 32), 4, 2, out=out, exact=False)


@case(precision=["ieee", "tf32", "bf16x3", "bf16x6"])
def matmul_precision(precision):
    launch = matmul_launch("f32", 32, 32, 64, (32, 32, 32), 4, 2, precision=precision, exact=False)
    if precision in ("tf32", "bf16x3"):
        launch.absolute = 0.1 if precision == "tf32" else 1e-3
    return launch


@triton.jit
def matmul_f64_kernel(a, b, out, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + at), out_dtype=tl.float64))


@case(n=[16, 32])
def matmul_f64(n):
    a, b = small_integers("f64", (n, n), 1), small_integers("f64", (n, n), 2)
    return Launch(matmul_f64_kernel, dict(a=a, b=b, out=filled("f64", (n, n)), N=n), dict(out=a @ b))


@triton.jit
def matmul_f16_sum_kernel(a, b, out, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + at), out_dtype=tl.float16))


@case(warps=[1, 4])
def matmul_f16_sum(warps):
    a, b = small_integers("f16", (32, 32), 1), small_integers("f16", (32, 32), 2)
    return Launch(matmul_f16_sum_kernel, dict(a=a, b=b, out=filled("f16", (32, 32)), N=32), dict(out=a @ b), warps=warps)


@triton.jit
def batched_kernel(a, b, out, BATCH: tl.constexpr, N: tl.constexpr):
    at = (tl.arange(0, BATCH)[:, None, None] * N + tl.arange(0, N)[None, :, None]) * N + tl.arange(0, N)[None, None, :]
    tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + at)))


@case(type=["f16", "f32"], warps=[1, 4])
def matmul_batched(type, warps):
    a, b = small_integers(type, (4, 16, 16), 1), small_integers(type, (4, 16, 16), 2)
    arguments = dict(a=a, b=b, out=filled("f32", a.shape), BATCH=4, N=16)
    return Launch(batched_kernel, arguments, dict(out=(wide(a) @ wide(b)).astype(np.float32)), warps=warps)


@triton.jit
def split_k_kernel(a, b, out, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row, column = tl.arange(0, M), tl.arange(0, N)
    inner = tl.program_id(0) * K + tl.arange(0, K)
    x, y = tl.load(a + row[:, None] * k + inner[None, :]), tl.load(b + inner[:, None] * N + column[None, :])
    tl.atomic_add(out + row[:, None] * N + column[None, :], tl.dot(x, y))


@case(type=["f16", "bf16"], warps=[1, 4])
def matmul_split_k(type, warps):
    a, b = small_integers(type, (32, 128), 1), small_integers(type, (128, 32), 2)
    arguments = dict(a=a, b=b, out=np.ones((32, 32), np.float32), k=128, M=32, N=32, K=32)
    expected = (wide(a) @ wide(b) + 1).astype(np.float32)
    return Launch(split_k_kernel, arguments, dict(out=expected), grid=(4,), warps=warps)


@triton.jit
def fused_kernel(a, b, bias, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row, column, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x, y = tl.load(a + row[:, None] * K + inner[None, :]), tl.load(b + inner[:, None] * N + column[None, :])
    value = tl.dot(x, y) + tl.load(bias + column)[None, :]
    value = tl.where(value > 0, value, 0.25 * value)
    tl.store(out + row[:, None] * N + column[None, :], value.to(out.dtype.element_ty))


@case(type=["f16", "bf16"], warps=[1, 2, 4])
def matmul_bias_relu(type, warps):
    a, b, bias = small_integers(type, (32, 64), 1), small_integers(type, (64, 64), 2), small_integers("f32", 64, 3)
    value = wide(a) @ wide(b) + bias
    expected = np.where(value > 0, value, 0.25 * value).astype(dtype(type))
    arguments = dict(a=a, b=b, bias=bias, out=filled(type, (32, 64)), M=32, N=64, K=64)
    return Launch(fused_kernel, arguments, dict(out=expected), warps=warps)


@triton.jit
def int4_kernel(a, packed, scale, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row, column, inner, half = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K), tl.arange(0, K // 2)
    pairs = tl.load(packed + column[:, None] * (K // 2) + half[None, :])
    low, high = ((pairs << 4).to(tl.int8) >> 4), pairs.to(tl.int8) >> 4
    weights = tl.interleave(low, high).to(tl.float16) * tl.load(scale + column)[:, None]
    total = tl.dot(tl.load(a + row[:, None] * K + inner[None, :]), tl.trans(weights))
    tl.store(out + row[:, None] * N + column[None, :], total)


@case(warps=[1, 4])
def matmul_int4(warps):
    m, n, k = 32, 32, 64
    a, weights = small_integers("f16", (m, k), 1), np.random.default_rng(2).integers(-8, 8, (n, k))
    scale = np.exp2(np.random.default_rng(3).integers(-2, 3, n)).astype(np.float16)
    packed = ((weights[:, ::2] & 15) | (weights[:, 1::2] & 15) << 4).astype(np.uint8)
    expected = (wide(a) @ (weights * wide(scale)[:, None]).T).astype(np.float32)
    arguments = dict(a=a, packed=packed, scale=scale, out=filled("f32", (m, n)), M=m, N=n, K=k)
    return Launch(int4_kernel, arguments, dict(out=expected), warps=warps)


@triton.jit
def scaled_kernel(
    a, a_scale, b, b_scale, out, A: tl.constexpr, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    A_PACK: tl.constexpr, B_PACK: tl.constexpr, HAS_A_SCALE: tl.constexpr,
):  # fmt: skip
    row, column, block = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // 32)
    inner_a, inner_b = tl.arange(0, K // A_PACK), tl.arange(0, K // B_PACK)
    x = tl.load(a + row[:, None] * (K // A_PACK) + inner_a[None, :])
    y = tl.load(b + inner_b[:, None] * N + column[None, :])
    y_scale = tl.load(b_scale + column[:, None] * (K // 32) + block[None, :])
    if HAS_A_SCALE:
        x_scale = tl.load(a_scale + row[:, None] * (K // 32) + block[None, :])
        total = tl.dot_scaled(x, x_scale, A, y, y_scale, B)
    else:
        total = tl.dot_scaled(x, None, A, y, y_scale, B)
    tl.store(out + row[:, None] * N + column[None, :], total)


# Elements by their names in tl.dot_scaled.
SCALED = {"e2m1": None, "e4m3": "e4m3", "e5m2": "e5m2", "bf16": "bf16", "fp16": "f16"}


def scaled_operand(kind, shape, axis, seed):
    """The stored elements of a matrix, and their values; pairs of 4-bit elements lie along `axis`."""
    generator = np.random.default_rng(seed)
    if kind != "e2m1":
        stored = generator.integers(-2, 3, shape).astype(dtype(SCALED[kind]))
        values = wide(stored)
        return (stored.view(np.uint8) if stored.itemsize == 1 else stored), values
    codes = generator.integers(0, 16, shape, dtype=np.uint8)
    values = wide(codes.view(ml_dtypes.float4_e2m1fn))
    even, odd = np.take(codes, np.arange(0, shape[axis], 2), axis), np.take(codes, np.arange(1, shape[axis], 2), axis)
    return even | odd << 4, values


@case(a=["e2m1", "e4m3", "e5m2", "bf16", "fp16"], b=["e2m1", "e4m3", "e5m2"])
def matmul_scaled(a, b):
    m, n, k = 32, 32, 128
    stored_a, values_a = scaled_operand(a, (m, k), 1, 1)
    stored_b, values_b = scaled_operand(b, (k, n), 0, 2)
    generator = np.random.default_rng(3)
    # Exponents with a bias of 127.
    a_scale, b_scale = (generator.integers(125, 130, (rows, k // 32), dtype=np.uint8) for rows in (m, n))
    has_a_scale = a not in ("bf16", "fp16")
    if has_a_scale:
        values_a = values_a * np.repeat(np.exp2(a_scale.astype(np.float64) - 127), 32, 1)
    values_b = values_b * np.repeat(np.exp2(b_scale.astype(np.float64) - 127), 32, 1).T
    arguments = dict(
        a=stored_a, a_scale=a_scale, b=stored_b, b_scale=b_scale, out=filled("f32", (m, n)), A=a, B=b, M=m, N=n, K=k,
        A_PACK=2 if a == "e2m1" else 1, B_PACK=2 if b == "e2m1" else 1, HAS_A_SCALE=has_a_scale,
    )  # fmt: skip
    return Launch(scaled_kernel, arguments, dict(out=(values_a @ values_b).astype(np.float32)))


@triton.jit
def convolution_kernel(
    x, weight, out, height, width, CHANNELS: tl.constexpr, FILTERS: tl.constexpr, PIXELS: tl.constexpr
):
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    row, column = pixel // width, pixel % width
    channel, filter = tl.arange(0, CHANNELS), tl.arange(0, FILTERS)
    total = tl.zeros((PIXELS, FILTERS), tl.float32)
    for tap in range(9):
        y, z = row + tap // 3 - 1, column + tap % 3 - 1
        inside = (y >= 0) & (y < height) & (z >= 0) & (z < width)
        pixels = tl.load(x + (y * width + z)[:, None] * CHANNELS + channel[None, :], inside[:, None], other=0.0)
        weights = tl.load(weight + (tap * CHANNELS + channel)[:, None] * FILTERS + filter[None, :])
        total = tl.dot(pixels, weights, total)
    tl.store(out + pixel[:, None] * FILTERS + filter[None, :], total, pixel[:, None] < height * width)


@case(type=["f16", "bf16"], stages=[1, 2])
def convolution(type, stages):
    height, width, channels, filters = 6, 9, 16, 16
    x, weight = small_integers(type, (height, width, channels), 1), small_integers(type, (3, 3, channels, filters), 2)
    padded = np.pad(wide(x), ((1, 1), (1, 1), (0, 0)))
    expected = sum(
        padded[i : i + height, j : j + width] @ wide(weight[i, j]) for i in range(3) for j in range(3)
    ).astype(np.float32)  # fmt: skip
    arguments = dict(x=x, weight=weight, out=filled("f32", expected.shape), height=height, width=width, CHANNELS=channels,
                     FILTERS=filters, PIXELS=32)  # fmt: skip
    return Launch(convolution_kernel, arguments, dict(out=expected), grid=(2,), stages=stages)


@triton.jit
def persistent_kernel(a, b, out, tiles, N: tl.constexpr, TILE: tl.constexpr):
    across = N // TILE
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        row, column = tile // across * TILE + tl.arange(0, TILE), tile % across * TILE + tl.arange(0, TILE)
        total = tl.zeros((TILE, TILE), tl.float32)
        for start in range(0, N, TILE):
            inner = start + tl.arange(0, TILE)
            x, y = tl.load(a + row[:, None] * N + inner[None, :]), tl.load(b + inner[:, None] * N + column[None, :])
            total = tl.dot(x, y, total)
        tl.store(out + row[:, None] * N + column[None, :], total)


@case(type=["f16", "bf16"], stages=[1, 2])
def matmul_persistent(type, stages):
    a, b = small_integers(type, (64, 64), 1), small_integers(type, (64, 64), 2)
    arguments = dict(a=a, b=b, out=filled("f32", (64, 64)), tiles=4, N=64, TILE=32)
    expected = (wide(a) @ wide(b)).astype(np.float32)
    return Launch(persistent_kernel, arguments, dict(out=expected), grid=(3,), stages=stages)
