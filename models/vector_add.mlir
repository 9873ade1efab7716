// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// c[i] = a[i] + b[i]: the smallest module that dispatches.
#id = affine_map<(i) -> (i)>
func.func @vector_add(%a: tensor<1000xf32>, %b: tensor<1000xf32>) -> tensor<1000xf32> {
  %empty = tensor.empty() : tensor<1000xf32>
  %c = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%a, %b : tensor<1000xf32>, tensor<1000xf32>) outs(%empty : tensor<1000xf32>) {
  ^bb0(%x: f32, %y: f32, %out: f32):
    %0 = arith.addf %x, %y : f32
    linalg.yield %0 : f32
  } -> tensor<1000xf32>
  return %c : tensor<1000xf32>
}
