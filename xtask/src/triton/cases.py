# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Cases of kernels: how a kernel is compiled and launched, and the memory that NumPy expects of it."""

import functools
import itertools
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

# Element types by the names that cases have, with Triton's names.
TYPES = {
    "i1": (np.bool_, "i1"),
    "i8": (np.int8, "i8"),
    "i16": (np.int16, "i16"),
    "i32": (np.int32, "i32"),
    "i64": (np.int64, "i64"),
    "u8": (np.uint8, "u8"),
    "u16": (np.uint16, "u16"),
    "u32": (np.uint32, "u32"),
    "u64": (np.uint64, "u64"),
    "f16": (np.float16, "fp16"),
    "bf16": (ml_dtypes.bfloat16, "bf16"),
    "f32": (np.float32, "fp32"),
    "f64": (np.float64, "fp64"),
    "e4m3": (ml_dtypes.float8_e4m3fn, "fp8e4nv"),
    "e5m2": (ml_dtypes.float8_e5m2, "fp8e5"),
    "e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, "fp8e4b8"),
    "e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, "fp8e5b16"),
}
TRITON_NAMES = {np.dtype(kind): name for kind, name in TYPES.values()}

# Relative errors of one rounding, by type.
EPSILON = {"f16": 2**-10, "bf16": 2**-7, "f32": 2**-23, "f64": 2**-52, "e4m3": 2**-3, "e5m2": 2**-2}
EPSILON |= {"e4m3fnuz": 2**-3, "e5m2fnuz": 2**-2}

CASES = {}


@dataclass
class Launch:
    """One launch of a kernel.

    `arguments` has all of the kernel's arguments by name: arrays are buffers, which the kernel gets the addresses of;
    numbers are scalars, or the values of constants. `expected` has the arrays that buffers hold afterwards; buffers
    that it does not name must not change. With `relative` or `absolute`, floating-point elements may differ by so much.
    """

    kernel: object
    arguments: dict
    expected: dict
    grid: tuple = (1,)
    warps: int = 4
    stages: int = 2
    relative: float = 0.0
    absolute: float = 0.0
    options: dict = field(default_factory=dict)


def case(**axes):
    """Registers a function that makes a Launch, for each combination of the values of `axes`."""

    def register(make):
        for values in itertools.product(*axes.values()):
            parts = [make.__name__]
            for axis, value in zip(axes, values):
                parts.append(f"{axis}{value}" if isinstance(value, int) else str(value))
            CASES["_".join(parts)] = functools.partial(make, **dict(zip(axes, values)))
        return make

    return register


def dtype(name):
    return np.dtype(TYPES[name][0])


def is_float(name):
    return name in EPSILON


def random(name, shape, seed=0, low=None, high=None):
    """Elements of a type: integers of the whole range, or floats from -2 to 2, unless limits are given."""
    generator = np.random.default_rng(seed + 1)
    kind = dtype(name)
    if name == "i1":
        return generator.integers(0, 2, shape).astype(kind)
    if is_float(name):
        return generator.uniform(-2.0 if low is None else low, 2.0 if high is None else high, shape).astype(kind)
    limits = np.iinfo(kind)
    low, high = limits.min if low is None else low, limits.max if high is None else high
    return generator.integers(low, high, shape, dtype=kind, endpoint=True)


def filled(name, shape):
    """A buffer for results, with bytes that no result is likely to have."""
    count = int(np.prod(shape))
    return np.frombuffer(bytes([0x5A]) * (count * dtype(name).itemsize), dtype(name)).reshape(shape).copy()


def wide(array):
    """Floats in the type that references are computed in."""
    return np.asarray(array).astype(np.float64)


def difference(got, wanted, relative, absolute):
    """Reports the first element that differs by more than is allowed, and the number of such elements; None if there is none."""
    if relative or absolute:
        close = np.isclose(wide(got), wide(wanted), rtol=relative, atol=absolute, equal_nan=True)
    else:
        as_bits = f"u{got.dtype.itemsize}"
        close = got.view(as_bits) == wanted.view(as_bits)
    if close.all():
        return None
    first = np.unravel_index(np.argmin(close), close.shape)
    at = ", ".join(map(str, first))
    return f"[{at}] is {got[first]!s} in place of {wanted[first]!s}; {np.sum(~close)} of {close.size} elements differ"
