// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
func.func @main(%a: tensor<512x512xi8>, %b: tensor<512x512xi8>) -> tensor<512x512xi32> {
  %zero = arith.constant 0 : i32
  %empty = tensor.empty() : tensor<512x512xi32>
  %init = linalg.fill ins(%zero : i32) outs(%empty : tensor<512x512xi32>) -> tensor<512x512xi32>
  %y = linalg.matmul ins(%a, %b : tensor<512x512xi8>, tensor<512x512xi8>) outs(%init : tensor<512x512xi32>) -> tensor<512x512xi32>
  return %y : tensor<512x512xi32>
}
