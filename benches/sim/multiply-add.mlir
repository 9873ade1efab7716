// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
func.func @main(%a: tensor<1048576xf32>, %b: tensor<1048576xf32>, %c: tensor<1048576xf32>) -> tensor<1048576xf32> {
  %0 = arith.mulf %a, %b : tensor<1048576xf32>
  %1 = arith.addf %0, %c : tensor<1048576xf32>
  return %1 : tensor<1048576xf32>
}
