// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensors of dimensions that are known when the function is called only: they may turn out empty.
#vector = affine_map<(i) -> (i)>
#matrix = affine_map<(m, n) -> (m, n)>
#rows = affine_map<(m, n) -> (m)>

// c[i] = a[i] + b[i].
func.func @add_any(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %zero = arith.constant 0 : index
  %length = tensor.dim %a, %zero : tensor<?xf32>
  %empty = tensor.empty(%length) : tensor<?xf32>
  %c = linalg.generic {indexing_maps = [#vector, #vector, #vector], iterator_types = ["parallel"]}
      ins(%a, %b : tensor<?xf32>, tensor<?xf32>) outs(%empty : tensor<?xf32>) {
  ^bb0(%x: f32, %y: f32, %out: f32):
    %0 = arith.addf %x, %y : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32>
  return %c : tensor<?xf32>
}

// The sum of each row of any length, zero without elements.
func.func @row_sum_any(%x: tensor<4x?xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4xf32>) -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#matrix, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x?xf32>) outs(%init : tensor<4xf32>) {
  ^bb0(%in: f32, %sum: f32):
    %0 = arith.addf %in, %sum : f32
    linalg.yield %0 : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// The rows of a and then those of b; and the exponentials of a.
func.func @concat_any(%a: tensor<?x4xf32>, %b: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>) {
  %zero = arith.constant 0 : index
  %m = tensor.dim %a, %zero : tensor<?x4xf32>
  %n = tensor.dim %b, %zero : tensor<?x4xf32>
  %sum = arith.addi %m, %n : index
  %empty = tensor.empty(%sum) : tensor<?x4xf32>
  %first = tensor.insert_slice %a into %empty[0, 0] [%m, 4] [1, 1] : tensor<?x4xf32> into tensor<?x4xf32>
  %both = tensor.insert_slice %b into %first[%m, 0] [%n, 4] [1, 1] : tensor<?x4xf32> into tensor<?x4xf32>
  %empty_exp = tensor.empty(%m) : tensor<?x4xf32>
  %exp = linalg.generic {indexing_maps = [#matrix, #matrix], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<?x4xf32>) outs(%empty_exp : tensor<?x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.exp %in : f32
    linalg.yield %0 : f32
  } -> tensor<?x4xf32>
  return %both, %exp : tensor<?x4xf32>, tensor<?x4xf32>
}
