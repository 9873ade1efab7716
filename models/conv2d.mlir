// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 3x3 convolution, stride 1, no padding, 8 to 16 channels, on one 32x32 image.
func.func @conv2d(%x: tensor<1x34x34x8xf32>, %w: tensor<3x3x8x16xf32>) -> tensor<1x32x32x16xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x32x32x16xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x32x32x16xf32>) -> tensor<1x32x32x16xf32>
  %y = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%x, %w : tensor<1x34x34x8xf32>, tensor<3x3x8x16xf32>)
      outs(%init : tensor<1x32x32x16xf32>) -> tensor<1x32x32x16xf32>
  return %y : tensor<1x32x32x16xf32>
}
