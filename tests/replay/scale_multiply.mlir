// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 2 * x * y, in a kernel with the name and the arguments of the one in scale_add.mlir.
func.func @main(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> {
  %0 = arith.addf %x, %x : tensor<64xf32>
  %1 = arith.mulf %0, %y : tensor<64xf32>
  return %1 : tensor<64xf32>
}
