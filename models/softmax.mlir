// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Softmax over the last dimension.
func.func @softmax(%x: tensor<128x256xf32>) -> tensor<128x256xf32> {
  %empty = tensor.empty() : tensor<128x256xf32>
  %y = linalg.softmax dimension(1) ins(%x : tensor<128x256xf32>)
                                   outs(%empty : tensor<128x256xf32>) -> tensor<128x256xf32>
  return %y : tensor<128x256xf32>
}
