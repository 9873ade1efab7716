// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
func.func @main(%x: tensor<1x58x58x128xf32>, %w: tensor<3x3x128xf32>) -> tensor<1x56x56x128xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x56x56x128xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x56x56x128xf32>) -> tensor<1x56x56x128xf32>
  %y = linalg.depthwise_conv_2d_nhwc_hwc {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%x, %w : tensor<1x58x58x128xf32>, tensor<3x3x128xf32>)
      outs(%init : tensor<1x56x56x128xf32>) -> tensor<1x56x56x128xf32>
  return %y : tensor<1x56x56x128xf32>
}
