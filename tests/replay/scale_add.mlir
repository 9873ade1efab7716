// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 2 * x + y. A recording of it is replayed with the kernel of scale_multiply.mlir in the place of this one.
func.func @main(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> {
  %0 = arith.addf %x, %x : tensor<64xf32>
  %1 = arith.addf %0, %y : tensor<64xf32>
  return %1 : tensor<64xf32>
}
