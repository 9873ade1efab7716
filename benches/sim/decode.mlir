// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
func.func @main(%x: tensor<1x2048xf16>, %w: tensor<2048x2048xf16>) -> tensor<1x2048xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x2048xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x2048xf32>) -> tensor<1x2048xf32>
  %y = linalg.matmul ins(%x, %w : tensor<1x2048xf16>, tensor<2048x2048xf16>) outs(%init : tensor<1x2048xf32>) -> tensor<1x2048xf32>
  return %y : tensor<1x2048xf32>
}
