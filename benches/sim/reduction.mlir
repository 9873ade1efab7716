// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
func.func @main(%x: tensor<1024x1024xf32>) -> tensor<1024xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1024xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1024xf32>) -> tensor<1024xf32>
  %y = linalg.reduce { arith.addf } ins(%x : tensor<1024x1024xf32>) outs(%init : tensor<1024xf32>) dimensions = [1]
  return %y : tensor<1024xf32>
}
