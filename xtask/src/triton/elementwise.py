# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Kernels whose elements are independent."""

import math

import numpy as np
import triton
import triton.language as tl
from cases import EPSILON, Launch, case, dtype, filled, is_float, random, wide
from triton.language.extra import libdevice

INTEGERS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
FLOATS = ["f16", "bf16", "f32", "f64"]


@triton.jit
def add_kernel(a, b, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(a + at, mask) + tl.load(b + at, mask), mask)


@case(type=INTEGERS + FLOATS)
def add(type):
    n = 1000
    a, b = random(type, n), random(type, n, 1)
    out = filled(type, 1024)
    expected = out.copy()
    expected[:n] = a + b
    arguments = dict(a=a, b=b, out=out, n=n, BLOCK=256)
    return Launch(add_kernel, arguments, dict(out=expected), grid=(4,))


@case(warps=[1, 8], n=[1, 33, 2048])
def add_tail(warps, n):
    a, b = random("f32", n), random("f32", n, 1)
    out = filled("f32", 2048)
    expected = out.copy()
    expected[:n] = a + b
    arguments = dict(a=a, b=b, out=out, n=n, BLOCK=1024)
    return Launch(add_kernel, arguments, dict(out=expected), grid=(2,), warps=warps)


@triton.jit
def integer_ops_kernel(a, b, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x, y = tl.load(a + at), tl.load(b + at)
    tl.store(out + at, x - y)
    tl.store(out + n + at, x * y)
    tl.store(out + 2 * n + at, x & y)
    tl.store(out + 3 * n + at, x | y)
    tl.store(out + 4 * n + at, x ^ y)
    tl.store(out + 5 * n + at, tl.minimum(x, y))
    tl.store(out + 6 * n + at, tl.maximum(x, y))
    tl.store(out + 7 * n + at, ~x)
    tl.store(out + 8 * n + at, x << (y & 7))
    tl.store(out + 9 * n + at, x >> (y & 7))
    tl.store(out + 10 * n + at, tl.where(x < y, x, -y))


@case(type=INTEGERS)
def integer_ops(type):
    n = 512
    a, b = random(type, n), random(type, n, 1)
    with np.errstate(over="ignore"):
        rows = [a - b, a * b, a & b, a | b, a ^ b, np.minimum(a, b), np.maximum(a, b), ~a, a << (b & 7), a >> (b & 7)]
        rows.append(np.where(a < b, a, np.zeros_like(b) - b))
    arguments = dict(a=a, b=b, out=filled(type, (len(rows), n)), n=n, BLOCK=n)
    return Launch(integer_ops_kernel, arguments, dict(out=np.stack(rows)))


@triton.jit
def divide_kernel(a, b, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x, y = tl.load(a + at), tl.load(b + at)
    tl.store(out + at, x // y)
    tl.store(out + n + at, x % y)


@case(type=INTEGERS)
def divide(type):
    n = 256
    a, b = random(type, n), random(type, n, 1)
    b[::2] = random(type, n // 2, 2, 1, 11)
    b[b == 0] = 3
    # Towards zero, as C's.
    quotient = np.array([abs(int(x)) // abs(int(y)) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(a, b)], a.dtype)
    with np.errstate(over="ignore"):
        rows = [quotient, a - quotient * b]
    arguments = dict(a=a, b=b, out=filled(type, (2, n)), n=n, BLOCK=n)
    return Launch(divide_kernel, arguments, dict(out=np.stack(rows)))


@triton.jit
def umulhi_kernel(a, b, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.umulhi(tl.load(a + at), tl.load(b + at)))


@case(type=["u32", "u64"])
def umulhi(type):
    a, b = random(type, 512), random(type, 512, 1)
    bits = 8 * a.itemsize
    expected = np.array([int(x) * int(y) >> bits for x, y in zip(a, b)], a.dtype)
    return Launch(umulhi_kernel, dict(a=a, b=b, out=filled(type, 512), BLOCK=512), dict(out=expected))


@triton.jit
def float_ops_kernel(a, b, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x, y = tl.load(a + at), tl.load(b + at)
    tl.store(out + at, x - y)
    tl.store(out + n + at, x * y)
    tl.store(out + 2 * n + at, tl.minimum(x, y))
    tl.store(out + 3 * n + at, tl.maximum(x, y))
    tl.store(out + 4 * n + at, tl.where(x > y, x, -y))
    tl.store(out + 5 * n + at, tl.abs(x))
    tl.store(out + 6 * n + at, tl.clamp(x, -0.5, 0.5))


@case(type=FLOATS)
def float_ops(type):
    n = 512
    a, b = random(type, n), random(type, n, 1)
    half = dtype(type).type(0.5)
    rows = [a - b, a * b, np.minimum(a, b), np.maximum(a, b), np.where(a > b, a, -b), np.abs(a), np.clip(a, -half, half)]
    arguments = dict(a=a, b=b, out=filled(type, (len(rows), n)), n=n, BLOCK=n)
    return Launch(float_ops_kernel, arguments, dict(out=np.stack(rows).astype(a.dtype)))


@triton.jit
def ieee_ops_kernel(a, b, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x, y = tl.load(a + at), tl.load(b + at)
    tl.store(out + at, tl.div_rn(x, y))
    tl.store(out + n + at, tl.sqrt_rn(tl.abs(x)))
    tl.store(out + 2 * n + at, tl.floor(x * 3))
    tl.store(out + 3 * n + at, tl.ceil(x * 3))


@case()
def ieee_ops():
    n = 512
    a, b = random("f32", n), random("f32", n, 1)
    rows = np.stack([a / b, np.sqrt(np.abs(a)), np.floor(a * np.float32(3)), np.ceil(a * np.float32(3))])
    return Launch(ieee_ops_kernel, dict(a=a, b=b, out=filled("f32", rows.shape), n=n, BLOCK=n), dict(out=rows))


@triton.jit
def fma_kernel(a, b, c, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.fma(tl.load(a + at), tl.load(b + at), tl.load(c + at)))


@case(type=["f32", "f64"])
def fma(type):
    a, b, c = random(type, 512), random(type, 512, 1), random(type, 512, 2)
    exact = np.array([math.fma(*map(float, row)) if hasattr(math, "fma") else float(row[0]) * float(row[1]) + float(row[2])
                      for row in zip(a, b, c)])  # fmt: skip
    arguments = dict(a=a, b=b, c=c, out=filled(type, 512), BLOCK=512)
    # A double rounding, and Python before 3.13, which has no fma.
    return Launch(fma_kernel, arguments, dict(out=exact.astype(a.dtype)), relative=EPSILON[type], absolute=1e-15)


@triton.jit
def math_kernel(a, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(a + at)
    positive = tl.abs(x) + 0.01
    tl.store(out + at, tl.exp(x))
    tl.store(out + n + at, tl.exp2(x))
    tl.store(out + 2 * n + at, tl.log(positive))
    tl.store(out + 3 * n + at, tl.log2(positive))
    tl.store(out + 4 * n + at, tl.sin(x))
    tl.store(out + 5 * n + at, tl.cos(x))
    tl.store(out + 6 * n + at, tl.sqrt(positive))
    tl.store(out + 7 * n + at, tl.rsqrt(positive))
    tl.store(out + 8 * n + at, tl.erf(x))
    tl.store(out + 9 * n + at, tl.sigmoid(x))


@case(type=["f32", "f64"])
def math_functions(type):
    n = 256
    a = random(type, n)
    x = wide(a)
    positive = np.abs(x) + 0.01
    rows = [np.exp(x), np.exp2(x), np.log(positive), np.log2(positive), np.sin(x), np.cos(x), np.sqrt(positive)]
    rows += [1 / np.sqrt(positive), np.array([math.erf(value) for value in x]), 1 / (1 + np.exp(-x))]
    arguments = dict(a=a, out=filled(type, (len(rows), n)), n=n, BLOCK=n)
    close = dict(relative=2e-5, absolute=1e-6) if type == "f32" else dict(relative=1e-9, absolute=1e-10)
    return Launch(math_kernel, arguments, dict(out=np.stack(rows).astype(a.dtype)), **close)


@triton.jit
def libdevice_kernel(a, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(a + at)
    tl.store(out + at, libdevice.tanh(x))
    tl.store(out + n + at, libdevice.atan(x))
    tl.store(out + 2 * n + at, libdevice.pow(tl.abs(x), 2.5))
    tl.store(out + 3 * n + at, libdevice.log1p(tl.abs(x)))
    tl.store(out + 4 * n + at, libdevice.expm1(x))
    tl.store(out + 5 * n + at, libdevice.cosh(x))
    tl.store(out + 6 * n + at, libdevice.rint(x * 4))
    tl.store(out + 7 * n + at, libdevice.fmod(x, 0.3))


@case(type=["f32"])
def device_library(type):
    n = 256
    a = random(type, n)
    x = wide(a)
    rows = [np.tanh(x), np.arctan(x), np.abs(x) ** 2.5, np.log1p(np.abs(x)), np.expm1(x), np.cosh(x), np.rint(x * 4)]
    rows.append(np.fmod(a, np.float32(0.3)))
    arguments = dict(a=a, out=filled(type, (len(rows), n)), n=n, BLOCK=n)
    return Launch(libdevice_kernel, arguments, dict(out=np.stack(rows).astype(a.dtype)), relative=1e-5, absolute=1e-6)


@triton.jit
def cast_kernel(a, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(a + at).to(out.dtype.element_ty))


CASTS = [
    ("f32", "f16"), ("f32", "bf16"), ("f32", "f64"), ("f64", "f32"), ("f16", "f32"), ("bf16", "f32"), ("f16", "bf16"),
    ("f32", "i32"), ("f32", "i8"), ("f32", "i64"), ("f32", "u32"), ("f16", "i16"), ("bf16", "i32"), ("f64", "i64"),
    ("i32", "f32"), ("i64", "f32"), ("i64", "f64"), ("u32", "f32"), ("u64", "f64"), ("i8", "f16"), ("u8", "bf16"), ("i16", "f32"),
    ("i8", "i32"), ("u8", "i64"), ("i64", "i8"), ("i32", "i16"), ("u16", "u64"),
    ("e4m3", "f32"), ("e5m2", "f32"), ("e4m3fnuz", "f32"), ("e5m2fnuz", "f32"), ("e4m3", "f16"), ("e5m2", "bf16"), ("e4m3", "bf16"),
    ("f32", "e4m3"), ("f32", "e5m2"), ("f32", "e4m3fnuz"), ("f32", "e5m2fnuz"), ("f16", "e5m2"), ("f16", "e4m3"), ("bf16", "e4m3"),
]  # fmt: skip


def register_casts():
    for source, target in CASTS:

        def cast(source=source, target=target):
            n = 512
            if is_float(source):
                a = random(source, n, 3, 0.0 if target.startswith("u") else -100.0, 100.0)
            else:
                a = random(source, n, 3)
            expected = a.astype(dtype(target))
            return Launch(cast_kernel, dict(a=a, out=filled(target, n), BLOCK=n), dict(out=expected))

        cast.__name__ = f"cast_{source}_to_{target}"
        case()(cast)


register_casts()


@triton.jit
def all_bytes_kernel(a, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(a + at).to(tl.float32))


@case(type=["e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz"])
def every_fp8(type):
    a = np.arange(256, dtype=np.uint8).view(dtype(type))
    # Not-a-numbers have many encodings: they are compared as such.
    arguments = dict(a=a, out=filled("f32", 256), BLOCK=256)
    return Launch(all_bytes_kernel, arguments, dict(out=a.astype(np.float32)), relative=1e-12)


@triton.jit
def bitcast_kernel(a, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    bits = tl.load(a + at).to(tl.int32, bitcast=True)
    tl.store(out + at, (bits ^ -0x80000000).to(tl.float32, bitcast=True))


@case()
def bitcast():
    a = random("f32", 512)
    return Launch(bitcast_kernel, dict(a=a, out=filled("f32", 512), BLOCK=512), dict(out=-a))


@triton.jit
def nan_kernel(a, b, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x, y = tl.load(a + at), tl.load(b + at)
    tl.store(out + at, tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out + n + at, tl.maximum(x, y, propagate_nan=tl.PropagateNan.NONE))
    tl.store(out + 2 * n + at, tl.where(x != x, 1.0, 0.0))
    tl.store(out + 3 * n + at, tl.where(x < y, 1.0, 0.0))


@case()
def nans():
    n = 512
    a, b = random("f32", n), random("f32", n, 1)
    a[::5], b[::7], a[1::11] = np.nan, np.nan, np.inf
    rows = np.stack([np.minimum(a, b), np.fmax(a, b), np.isnan(a), a < b]).astype(np.float32)
    arguments = dict(a=a, b=b, out=filled("f32", rows.shape), n=n, BLOCK=n)
    return Launch(nan_kernel, arguments, dict(out=rows), relative=1e-12)


@triton.jit
def load_other_kernel(a, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(a + at, (at < n) & (at % 3 != 0), other=7))


@case(type=["i8", "i16", "f16", "f32", "i64"])
def load_other(type):
    n, block = 700, 1024
    a = random(type, n)
    at = np.arange(block)
    expected = np.where((at < n) & (at % 3 != 0), np.resize(a, block), 7).astype(a.dtype)
    return Launch(load_other_kernel, dict(a=a, out=filled(type, block), n=n, BLOCK=block), dict(out=expected))


@triton.jit
def copy_2d_kernel(a, out, rows, columns, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    mask = (row < rows) & (column < columns)
    tl.store(out + row * columns + column, tl.load(a + row * stride + column, mask) * 2, mask)


@case(type=["i8", "f16", "f32", "i64"])
def copy_2d(type):
    rows, columns, stride = 50, 70, 96
    a = random(type, (rows, stride))
    two = dtype(type).type(2)
    arguments = dict(a=a, out=filled(type, (rows, columns)), rows=rows, columns=columns, stride=stride, ROWS=32, COLUMNS=32)
    expected = dict(out=a[:, :columns] * two)
    return Launch(copy_2d_kernel, arguments, expected, grid=(2, 3))


@triton.jit
def outer_kernel(a, b, out, N: tl.constexpr):
    row, column = tl.arange(0, N), tl.arange(0, N)
    product = tl.load(a + row)[:, None] * tl.load(b + column)[None, :]
    tl.store(out + row[:, None] * N + column[None, :], product + row[:, None])


@case(type=["i32", "f32"])
def outer(type):
    n = 64
    a, b = random(type, n), random(type, n, 1)
    expected = (a[:, None] * b[None, :] + np.arange(n, dtype=a.dtype)[:, None]).astype(a.dtype)
    return Launch(outer_kernel, dict(a=a, b=b, out=filled(type, (n, n)), N=n), dict(out=expected))


@triton.jit
def grid_kernel(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    width, height, depth = tl.num_programs(0), tl.num_programs(1), tl.num_programs(2)
    tl.store(out + (z * height + y) * width + x, x + 100 * y + 10000 * z + 1000000 * depth)


@case()
def grid():
    x, y, z = np.arange(5)[None, None, :], np.arange(3)[None, :, None], np.arange(2)[:, None, None]
    expected = (x + 100 * y + 10000 * z + 2000000).astype(np.int32)
    return Launch(grid_kernel, dict(out=filled("i32", expected.shape)), dict(out=expected), grid=(5, 3, 2))


@triton.jit
def collatz_kernel(a, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value, steps = tl.load(a + at), tl.zeros((BLOCK,), tl.int32)
    while tl.max(value, 0) > 1:
        active = value > 1
        following = tl.where(value % 2 == 0, value // 2, 3 * value + 1)
        value = tl.where(active, following, value)
        steps += active.to(tl.int32)
    tl.store(out + at, steps)


@case(warps=[1, 4])
def collatz(warps):
    a = np.arange(1, 257, dtype=np.int32)

    def steps(value):
        count = 0
        while value > 1:
            value, count = (value // 2 if value % 2 == 0 else 3 * value + 1), count + 1
        return count

    expected = np.array([steps(int(value)) for value in a], np.int32)
    return Launch(collatz_kernel, dict(a=a, out=filled("i32", 256), BLOCK=256), dict(out=expected), warps=warps)


@triton.jit
def polynomial_kernel(a, out, DEGREE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(a + at)
    result = tl.zeros((BLOCK,), x.dtype)
    for power in tl.static_range(DEGREE):
        result = result * x + (DEGREE - power)
    tl.store(out + at, result)


@case(fusion=[0, 1], type=["f32", "f64"])
def polynomial(fusion, type):
    a = random(type, 512)
    result = np.zeros_like(a)
    for power in range(8):
        result = result * a + a.dtype.type(8 - power)
    arguments = dict(a=a, out=filled(type, 512), DEGREE=8, BLOCK=512)
    close = dict(relative=1e-5, absolute=1e-5) if fusion else {}
    options = dict(enable_fp_fusion=bool(fusion))
    return Launch(polynomial_kernel, arguments, dict(out=result), options=options, **close)


@triton.jit
def assembly_kernel(a, b, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    result = tl.inline_asm_elementwise(
        "v_mul_f32 $0, $1, $2", "=v,v,v", [tl.load(a + at), tl.load(b + at)], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(out + at, result)


@case()
def assembly():
    a, b = random("f32", 512), random("f32", 512, 1)
    return Launch(assembly_kernel, dict(a=a, b=b, out=filled("f32", 512), BLOCK=512), dict(out=a * b))


@triton.jit
def scalar_arguments_kernel(out, a, b, c, d, e, f):
    tl.store(out, a.to(tl.float64))
    tl.store(out + 1, b.to(tl.float64))
    tl.store(out + 2, c.to(tl.float64))
    tl.store(out + 3, d.to(tl.float64))
    tl.store(out + 4, e.to(tl.float64))
    tl.store(out + 5, f.to(tl.float64))


@case()
def scalar_arguments():
    values = dict(a=np.int8(-5), b=np.float64(2.5), c=np.int16(-300), d=np.uint32(4000000000), e=2**40 + 1, f=0.375)
    expected = np.array([float(value) for value in values.values()])
    return Launch(scalar_arguments_kernel, dict(out=filled("f64", 6), **values), dict(out=expected), warps=1)


@triton.jit
def philox_kernel(out, uniform, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, c, d = tl.randint4x(seed, at)
    tl.store(out + 4 * at, a)
    tl.store(out + 4 * at + 1, b)
    tl.store(out + 4 * at + 2, c)
    tl.store(out + 4 * at + 3, d)
    tl.store(uniform + at, tl.rand(seed, at))


def philox(seed, offsets):
    """Philox 4x32-10 (Salmon et al., SC11) of 32-bit counters, as Triton's tl.philox orders its words."""
    mask = 0xFFFFFFFF
    c = [offsets.astype(np.uint64), *(np.zeros_like(offsets, np.uint64) for _ in range(3))]
    k = [seed & mask, seed >> 32]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        low = np.uint64(mask)
        high = np.uint64(32)
        c = [(b >> high) ^ c[1] ^ np.uint64(k[0]), b & low, (a >> high) ^ c[3] ^ np.uint64(k[1]), a & low]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return np.stack(c, -1).astype(np.uint32)


@case()
def random_numbers():
    n, seed = 512, 0x123456789AB
    words = philox(seed, np.arange(n))
    bits = words[:, 0].view(np.int32).astype(np.int64)
    uniform = (np.where(bits < 0, -bits - 1, bits) * 4.6566127342e-10).astype(np.float32)
    arguments = dict(out=filled("u32", (n, 4)), uniform=filled("f32", n), seed=seed, BLOCK=256)
    return Launch(philox_kernel, arguments, dict(out=words, uniform=uniform), grid=(2,), relative=1e-6, absolute=1e-9)


@triton.jit
def activation_kernel(x, bias, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    value = tl.load(x + at, mask).to(tl.float32) + tl.load(bias + at % 64, mask).to(tl.float32)
    gelu = 0.5 * value * (1 + tl.erf(value * 0.7071067811865476))
    tl.store(out + at, (gelu * tl.sigmoid(value)).to(out.dtype.element_ty), mask)


@case(type=["f16", "bf16", "f32"], warps=[2, 8])
def activation(type, warps):
    n = 2000
    x, bias = random(type, n), random(type, 64, 1)
    value = wide(x) + wide(bias)[np.arange(n) % 64]
    erf = np.array([math.erf(element * math.sqrt(0.5)) for element in value])
    expected = 0.5 * value * (1 + erf) / (1 + np.exp(-value))
    arguments = dict(x=x, bias=bias, out=filled(type, n), n=n, BLOCK=512)
    close = dict(relative=2 * EPSILON[type] + 1e-5, absolute=1e-6)
    return Launch(activation_kernel, arguments, dict(out=expected.astype(dtype(type))), grid=(4,), warps=warps, **close)
