// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
func.func @main(%x: tensor<4194304xf32>) -> tensor<4194304xf32> {
  %y = arith.negf %x : tensor<4194304xf32>
  return %y : tensor<4194304xf32>
}
