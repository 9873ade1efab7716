#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains the demo's classifier of handwritten digits and writes it as MLIR.

    python3 demo/train.py        # needs numpy and scikit-learn; about a minute

Beside this script it writes digits.mlir (the network with its weights, for
iree-compile), test_images.npy and test_labels.npy (the images that were held
out of training). See README.md for the data's origin and the shapes.
"""

import pathlib

import numpy as np
from sklearn.datasets import load_digits

SEED = 1797
TEST_COUNT = 360
EPOCHS = 40
BATCH = 32

# 3x3 kernels without padding: 8x8x1 -> 6x6x8 -> 4x4x16 -> 10 logits.
KERNEL, CHANNELS_1, CHANNELS_2, CLASSES = 3, 8, 16, 10
FEATURES = 4 * 4 * CHANNELS_2


def init_weights(random):
    """He initialisation; biases start at zero."""

    def weights(*shape):
        fan_in = np.prod(shape[:-1])
        return random.normal(0, np.sqrt(2 / fan_in), shape)

    return {
        "w1": weights(KERNEL, KERNEL, 1, CHANNELS_1),
        "b1": np.zeros(CHANNELS_1),
        "w2": weights(KERNEL, KERNEL, CHANNELS_1, CHANNELS_2),
        "b2": np.zeros(CHANNELS_2),
        "w3": weights(FEATURES, CLASSES),
        "b3": np.zeros(CLASSES),
    }


def patches(x):
    """[n, h, w, c] -> [n, h - 2, w - 2, 3, 3, c], the input of each output pixel."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (KERNEL, KERNEL), axis=(1, 2))
    return windows.transpose(0, 1, 2, 4, 5, 3)


def convolve(x, w):
    return np.tensordot(patches(x), w, axes=3)


def convolve_backward(x, w, dy):
    """The gradients of convolve(x, w) for x and w, given that of its result."""
    dw = np.tensordot(patches(x), dy, axes=((0, 1, 2), (0, 1, 2)))
    border = KERNEL - 1
    padded = np.pad(dy, ((0, 0), (border, border), (border, border), (0, 0)))
    dx = convolve(padded, w[::-1, ::-1].transpose(0, 1, 3, 2))
    return dx, dw


def forward(p, images):
    """Logits of images [n, 8, 8] of values 0 to 16, and the values that backward needs."""
    x = images[..., None] / 16
    h1 = np.maximum(convolve(x, p["w1"]) + p["b1"], 0)
    h2 = np.maximum(convolve(h1, p["w2"]) + p["b2"], 0)
    logits = h2.reshape(len(images), -1) @ p["w3"] + p["b3"]
    return logits, (x, h1, h2)


def gradients(p, images, labels):
    """Gradients of the mean cross-entropy."""
    logits, (x, h1, h2) = forward(p, images)
    dy = np.exp(logits - logits.max(1, keepdims=True))
    dy /= dy.sum(1, keepdims=True)
    dy[np.arange(len(labels)), labels] -= 1
    dy /= len(labels)
    flat = h2.reshape(len(images), -1)
    d2 = (dy @ p["w3"].T).reshape(h2.shape) * (h2 > 0)
    d1, dw2 = convolve_backward(h1, p["w2"], d2)
    d1 *= h1 > 0
    _, dw1 = convolve_backward(x, p["w1"], d1)
    return {
        "w1": dw1,
        "b1": d1.sum((0, 1, 2)),
        "w2": dw2,
        "b2": d2.sum((0, 1, 2)),
        "w3": flat.T @ dy,
        "b3": dy.sum(0),
    }


def accuracy(p, images, labels):
    return np.mean(forward(p, images)[0].argmax(1) == labels)


def train(images, labels, random):
    """Adam with weight decay and a step size that falls to zero."""
    p = init_weights(random)
    mean = {k: np.zeros_like(v) for k, v in p.items()}
    square = {k: np.zeros_like(v) for k, v in p.items()}
    steps = EPOCHS * (len(images) // BATCH)
    step = 0
    for epoch in range(EPOCHS):
        order = random.permutation(len(images))
        for start in range(0, len(images) - BATCH + 1, BATCH):
            step += 1
            batch = order[start : start + BATCH]
            rate = 3e-3 * (1 - step / (steps + 1))
            for k, g in gradients(p, images[batch], labels[batch]).items():
                mean[k] = 0.9 * mean[k] + 0.1 * g
                square[k] = 0.999 * square[k] + 0.001 * g * g
                m = mean[k] / (1 - 0.9**step)
                s = square[k] / (1 - 0.999**step)
                p[k] -= rate * (m / (np.sqrt(s) + 1e-8) + 1e-2 * p[k])
        print(f"epoch {epoch + 1:2}: {accuracy(p, images, labels):.4f} on the training images")
    return {k: v.astype(np.float32) for k, v in p.items()}


def constant(name, array):
    shape = "x".join(map(str, array.shape))
    data = array.astype("<f4").tobytes().hex().upper()
    return f'  %{name} = arith.constant dense<"0x{data}"> : tensor<{shape}xf32>\n'


MODULE = """\
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Made by train.py; not edited by hand. Classifies {n} images of 8x8 pixels of
// values 0 to 16: the largest of an image's 10 logits is the digit.
#pixel = affine_map<(n, h, w, c) -> (n, h, w, c)>
#image = affine_map<(n, h, w, c) -> (n, h, w)>
#channel = affine_map<(n, h, w, c) -> (c)>
#logit = affine_map<(n, k) -> (n, k)>
#class = affine_map<(n, k) -> (k)>

func.func @classify(%images: tensor<{n}x8x8xf32>) -> tensor<{n}x10xf32> {{
{constants}\
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.0625 : f32

  %e0 = tensor.empty() : tensor<{n}x8x8x1xf32>
  %x = linalg.generic {{indexing_maps = [#image, #pixel], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%images : tensor<{n}x8x8xf32>) outs(%e0 : tensor<{n}x8x8x1xf32>) {{
  ^bb0(%in: f32, %out: f32):
    %0 = arith.mulf %in, %scale : f32
    linalg.yield %0 : f32
  }} -> tensor<{n}x8x8x1xf32>

  %e1 = tensor.empty() : tensor<{n}x6x6x{c1}xf32>
  %i1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<{n}x6x6x{c1}xf32>) -> tensor<{n}x6x6x{c1}xf32>
  %y1 = linalg.conv_2d_nhwc_hwcf {{dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}}
      ins(%x, %w1 : tensor<{n}x8x8x1xf32>, tensor<3x3x1x{c1}xf32>) outs(%i1 : tensor<{n}x6x6x{c1}xf32>) -> tensor<{n}x6x6x{c1}xf32>
  %h1 = linalg.generic {{indexing_maps = [#pixel, #channel, #pixel], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%y1, %b1 : tensor<{n}x6x6x{c1}xf32>, tensor<{c1}xf32>) outs(%e1 : tensor<{n}x6x6x{c1}xf32>) {{
  ^bb0(%in: f32, %bias: f32, %out: f32):
    %0 = arith.addf %in, %bias : f32
    %1 = arith.maximumf %0, %zero : f32
    linalg.yield %1 : f32
  }} -> tensor<{n}x6x6x{c1}xf32>

  %e2 = tensor.empty() : tensor<{n}x4x4x{c2}xf32>
  %i2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<{n}x4x4x{c2}xf32>) -> tensor<{n}x4x4x{c2}xf32>
  %y2 = linalg.conv_2d_nhwc_hwcf {{dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}}
      ins(%h1, %w2 : tensor<{n}x6x6x{c1}xf32>, tensor<3x3x{c1}x{c2}xf32>) outs(%i2 : tensor<{n}x4x4x{c2}xf32>) -> tensor<{n}x4x4x{c2}xf32>
  %h2 = linalg.generic {{indexing_maps = [#pixel, #channel, #pixel], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%y2, %b2 : tensor<{n}x4x4x{c2}xf32>, tensor<{c2}xf32>) outs(%e2 : tensor<{n}x4x4x{c2}xf32>) {{
  ^bb0(%in: f32, %bias: f32, %out: f32):
    %0 = arith.addf %in, %bias : f32
    %1 = arith.maximumf %0, %zero : f32
    linalg.yield %1 : f32
  }} -> tensor<{n}x4x4x{c2}xf32>

  %features = tensor.collapse_shape %h2 [[0], [1, 2, 3]] : tensor<{n}x4x4x{c2}xf32> into tensor<{n}x{f}xf32>
  %e3 = tensor.empty() : tensor<{n}x10xf32>
  %i3 = linalg.fill ins(%zero : f32) outs(%e3 : tensor<{n}x10xf32>) -> tensor<{n}x10xf32>
  %y3 = linalg.matmul ins(%features, %w3 : tensor<{n}x{f}xf32>, tensor<{f}x10xf32>) outs(%i3 : tensor<{n}x10xf32>) -> tensor<{n}x10xf32>
  %logits = linalg.generic {{indexing_maps = [#logit, #class, #logit], iterator_types = ["parallel", "parallel"]}}
      ins(%y3, %b3 : tensor<{n}x10xf32>, tensor<10xf32>) outs(%e3 : tensor<{n}x10xf32>) {{
  ^bb0(%in: f32, %bias: f32, %out: f32):
    %0 = arith.addf %in, %bias : f32
    linalg.yield %0 : f32
  }} -> tensor<{n}x10xf32>
  return %logits : tensor<{n}x10xf32>
}}
"""


def main():
    digits = load_digits()
    images, labels = digits.images.astype(np.float32), digits.target.astype(np.int32)
    random = np.random.default_rng(SEED)
    order = random.permutation(len(images))
    test, training = order[:TEST_COUNT], order[TEST_COUNT:]
    p = train(images[training], labels[training], random)

    folder = pathlib.Path(__file__).parent
    constants = "".join(constant(name, array) for name, array in p.items())
    module = MODULE.format(n=TEST_COUNT, c1=CHANNELS_1, c2=CHANNELS_2, f=FEATURES, constants=constants)
    (folder / "digits.mlir").write_text(module)
    np.save(folder / "test_images.npy", images[test])
    np.save(folder / "test_labels.npy", labels[test])
    print(f"{accuracy(p, images[test], labels[test]):.4f} on the {TEST_COUNT} test images")


if __name__ == "__main__":
    main()
