// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 2 * x + y, for arrays of any length.
func.func @scale_add(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %0 = arith.addf %x, %x : tensor<?xf32>
  %1 = arith.addf %0, %y : tensor<?xf32>
  return %1 : tensor<?xf32>
}
