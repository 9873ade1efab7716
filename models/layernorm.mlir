// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layer normalisation over the last dimension, with scale and offset:
// y = (x - mean(x)) / sqrt(var(x) + 1e-5) * gamma + beta.
#rows = affine_map<(i, j) -> (i)>
#cols = affine_map<(i, j) -> (j)>
#both = affine_map<(i, j) -> (i, j)>
func.func @layernorm(%x: tensor<128x256xf32>, %gamma: tensor<256xf32>, %beta: tensor<256xf32>) -> tensor<128x256xf32> {
  %zero = arith.constant 0.0 : f32
  %count = arith.constant 256.0 : f32
  %epsilon = arith.constant 1.0e-5 : f32
  %rows = tensor.empty() : tensor<128xf32>
  %full = tensor.empty() : tensor<128x256xf32>
  %init = linalg.fill ins(%zero : f32) outs(%rows : tensor<128xf32>) -> tensor<128xf32>
  %sum = linalg.generic {indexing_maps = [#both, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<128x256xf32>) outs(%init : tensor<128xf32>) {
  ^bb0(%in: f32, %acc: f32):
    %0 = arith.addf %acc, %in : f32
    linalg.yield %0 : f32
  } -> tensor<128xf32>
  %square_sum = linalg.generic {indexing_maps = [#both, #rows, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x, %sum : tensor<128x256xf32>, tensor<128xf32>) outs(%init : tensor<128xf32>) {
  ^bb0(%in: f32, %s: f32, %acc: f32):
    %mean = arith.divf %s, %count : f32
    %d = arith.subf %in, %mean : f32
    %0 = arith.mulf %d, %d : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<128xf32>
  %y = linalg.generic {indexing_maps = [#both, #rows, #rows, #cols, #cols, #both], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum, %square_sum, %gamma, %beta : tensor<128x256xf32>, tensor<128xf32>, tensor<128xf32>, tensor<256xf32>, tensor<256xf32>)
      outs(%full : tensor<128x256xf32>) {
  ^bb0(%in: f32, %s: f32, %q: f32, %g: f32, %b: f32, %out: f32):
    %mean = arith.divf %s, %count : f32
    %var = arith.divf %q, %count : f32
    %d = arith.subf %in, %mean : f32
    %e = arith.addf %var, %epsilon : f32
    %r = math.rsqrt %e : f32
    %0 = arith.mulf %d, %r : f32
    %1 = arith.mulf %0, %g : f32
    %2 = arith.addf %1, %b : f32
    linalg.yield %2 : f32
  } -> tensor<128x256xf32>
  return %y : tensor<128x256xf32>
}
