# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles a product of matrices in Triton for gfx942, runs it on the software GPU and compares it with NumPy."""

import amdgpu_sim
import numpy as np
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget


@triton.jit
def matmul(a, b, c, N: tl.constexpr):
    at = tl.arange(0, N)
    square = at[:, None] * N + at[None, :]
    tl.store(c + square, tl.dot(tl.load(a + square), tl.load(b + square)))


source = triton.compiler.ASTSource(matmul, {"a": "*fp16", "b": "*fp16", "c": "*fp32", "N": "constexpr"}, {"N": 32})
code = triton.compile(source, target=GPUTarget("hip", "gfx942", 64), options={"num_warps": 4})
kernel = amdgpu_sim.device("gfx942", checks="all").load(code.asm["hsaco"])
a, b = (np.random.default_rng(n).standard_normal((32, 32)).astype(np.float16) for n in range(2))
c = np.empty((32, 32), np.float32)
run = kernel[1, 4 * 64](a, b, c, *[None] * (len(kernel.arguments) - 3), dynamic_lds=code.metadata.shared)
np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-3, atol=1e-3)
assert run.findings == [], run.findings
