# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Attention in one kernel (Dao et al., 2022)."""

import numpy as np
import triton
import triton.language as tl
from cases import EPSILON, Launch, case, dtype, filled, random, wide
from normalization import softmax_of


@triton.jit
def attention_kernel(
    q, k, v, out, length, scale, CAUSAL: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr
):
    head = tl.program_id(1) * length * WIDTH
    query, key, column = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES), tl.arange(0, KEYS), tl.arange(0, WIDTH)
    queries = tl.load(q + head + query[:, None] * WIDTH + column[None, :])
    largest = tl.full((QUERIES,), -float("inf"), tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    result = tl.zeros((QUERIES, WIDTH), tl.float32)
    end = (tl.program_id(0) + 1) * QUERIES if CAUSAL else length
    for start in range(0, end, KEYS):
        keys = tl.load(k + head + (start + key)[None, :] * WIDTH + column[:, None])
        scores = tl.dot(queries, keys, input_precision="ieee") * scale
        if CAUSAL:
            scores = tl.where(query[:, None] >= (start + key)[None, :], scores, -float("inf"))
        following = tl.maximum(largest, tl.max(scores, 1))
        chance = tl.exp2(scores - following[:, None])
        correction = tl.exp2(largest - following)
        total = total * correction + tl.sum(chance, 1)
        values = tl.load(v + head + (start + key)[:, None] * WIDTH + column[None, :])
        result = tl.dot(chance.to(values.dtype), values, result * correction[:, None], input_precision="ieee")
        largest = following
    result = result / total[:, None]
    tl.store(out + head + query[:, None] * WIDTH + column[None, :], result.to(out.dtype.element_ty))


def attention_of(q, k, v, causal):
    scores = np.einsum("hik,hjk->hij", wide(q), wide(k)) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    return softmax_of(scores) @ wide(v)


@case(type=["f16", "bf16", "f32"], causal=[0, 1], warps=[1, 4])
def flash_attention(type, causal, warps):
    heads, length, width = 2, 64, 32
    q, k, v = (random(type, (heads, length, width), seed) for seed in range(3))
    scale = float(np.log2(np.e) / np.sqrt(width))
    arguments = dict(q=q, k=k, v=v, out=filled(type, q.shape), length=length, scale=scale, CAUSAL=bool(causal), QUERIES=32, KEYS=32,
                     WIDTH=width)  # fmt: skip
    expected = dict(out=attention_of(q, k, v, causal).astype(dtype(type)))
    close = dict(relative=4 * EPSILON[type] + 1e-4, absolute=2 * EPSILON[type] + 1e-5)
    return Launch(attention_kernel, arguments, expected, grid=(2, heads), warps=warps, **close)


@triton.jit
def decode_kernel(q, k, v, out, length, scale, KEYS: tl.constexpr, WIDTH: tl.constexpr):
    head, key, column = tl.program_id(0), tl.arange(0, KEYS), tl.arange(0, WIDTH)
    query = tl.load(q + head * WIDTH + column).to(tl.float32)
    largest, total = -float("inf"), 0.0
    result = tl.zeros((WIDTH,), tl.float32)
    for start in range(0, length, KEYS):
        at = (head * length + start + key)[:, None] * WIDTH + column[None, :]
        mask = (start + key)[:, None] < length
        scores = tl.sum(tl.load(k + at, mask, other=0.0).to(tl.float32) * query[None, :], 1) * scale
        scores = tl.where(start + key < length, scores, -float("inf"))
        following = tl.maximum(largest, tl.max(scores, 0))
        chance, correction = tl.exp(scores - following), tl.exp(largest - following)
        total = total * correction + tl.sum(chance, 0)
        result = result * correction + tl.sum(chance[:, None] * tl.load(v + at, mask, other=0.0).to(tl.float32), 0)
        largest = following
    tl.store(out + head * WIDTH + column, (result / total).to(out.dtype.element_ty))


@case(type=["f16", "bf16"], warps=[1, 4])
def decode_attention(type, warps):
    heads, length, width = 3, 50, 64
    q, k, v = random(type, (heads, 1, width)), random(type, (heads, length, width), 1), random(type, (heads, length, width), 2)
    arguments = dict(q=q, k=k, v=v, out=filled(type, q.shape), length=length, scale=0.125, KEYS=16, WIDTH=width)
    expected = dict(out=attention_of(q, k, v, False).astype(dtype(type)))
    close = dict(relative=2 * EPSILON[type], absolute=EPSILON[type] / 8)
    return Launch(decode_kernel, arguments, expected, grid=(heads,), warps=warps, **close)
