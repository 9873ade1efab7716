// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A perceptron with one hidden layer, 784-128-10, for one image and for a batch of 32.
#both = affine_map<(i, j) -> (i, j)>
#cols = affine_map<(i, j) -> (j)>

func.func @mlp_batch1(%x: tensor<1x784xf32>, %w1: tensor<784x128xf32>, %b1: tensor<128xf32>, %w2: tensor<128x10xf32>, %b2: tensor<10xf32>) -> tensor<1x10xf32> {
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<1x128xf32>
  %i1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x128xf32>) -> tensor<1x128xf32>
  %m1 = linalg.matmul ins(%x, %w1 : tensor<1x784xf32>, tensor<784x128xf32>) outs(%i1 : tensor<1x128xf32>) -> tensor<1x128xf32>
  %h = linalg.generic {indexing_maps = [#both, #cols, #both], iterator_types = ["parallel", "parallel"]}
      ins(%m1, %b1 : tensor<1x128xf32>, tensor<128xf32>) outs(%e1 : tensor<1x128xf32>) {
  ^bb0(%in: f32, %b: f32, %out: f32):
    %0 = arith.addf %in, %b : f32
    %1 = arith.maximumf %0, %zero : f32
    linalg.yield %1 : f32
  } -> tensor<1x128xf32>
  %e2 = tensor.empty() : tensor<1x10xf32>
  %i2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<1x10xf32>) -> tensor<1x10xf32>
  %m2 = linalg.matmul ins(%h, %w2 : tensor<1x128xf32>, tensor<128x10xf32>) outs(%i2 : tensor<1x10xf32>) -> tensor<1x10xf32>
  %y = linalg.generic {indexing_maps = [#both, #cols, #both], iterator_types = ["parallel", "parallel"]}
      ins(%m2, %b2 : tensor<1x10xf32>, tensor<10xf32>) outs(%e2 : tensor<1x10xf32>) {
  ^bb0(%in: f32, %b: f32, %out: f32):
    %0 = arith.addf %in, %b : f32
    linalg.yield %0 : f32
  } -> tensor<1x10xf32>
  return %y : tensor<1x10xf32>
}

func.func @mlp_batch32(%x: tensor<32x784xf32>, %w1: tensor<784x128xf32>, %b1: tensor<128xf32>, %w2: tensor<128x10xf32>, %b2: tensor<10xf32>) -> tensor<32x10xf32> {
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<32x128xf32>
  %i1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<32x128xf32>) -> tensor<32x128xf32>
  %m1 = linalg.matmul ins(%x, %w1 : tensor<32x784xf32>, tensor<784x128xf32>) outs(%i1 : tensor<32x128xf32>) -> tensor<32x128xf32>
  %h = linalg.generic {indexing_maps = [#both, #cols, #both], iterator_types = ["parallel", "parallel"]}
      ins(%m1, %b1 : tensor<32x128xf32>, tensor<128xf32>) outs(%e1 : tensor<32x128xf32>) {
  ^bb0(%in: f32, %b: f32, %out: f32):
    %0 = arith.addf %in, %b : f32
    %1 = arith.maximumf %0, %zero : f32
    linalg.yield %1 : f32
  } -> tensor<32x128xf32>
  %e2 = tensor.empty() : tensor<32x10xf32>
  %i2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<32x10xf32>) -> tensor<32x10xf32>
  %m2 = linalg.matmul ins(%h, %w2 : tensor<32x128xf32>, tensor<128x10xf32>) outs(%i2 : tensor<32x10xf32>) -> tensor<32x10xf32>
  %y = linalg.generic {indexing_maps = [#both, #cols, #both], iterator_types = ["parallel", "parallel"]}
      ins(%m2, %b2 : tensor<32x10xf32>, tensor<10xf32>) outs(%e2 : tensor<32x10xf32>) {
  ^bb0(%in: f32, %b: f32, %out: f32):
    %0 = arith.addf %in, %b : f32
    linalg.yield %0 : f32
  } -> tensor<32x10xf32>
  return %y : tensor<32x10xf32>
}
