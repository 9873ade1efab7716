// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions over rows and columns of different lengths.
#both = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>

// Sum of each row.
func.func @row_sum(%x: tensor<64x1000xf32>) -> tensor<64xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<64xf32>) -> tensor<64xf32>
  %y = linalg.generic {indexing_maps = [#both, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<64x1000xf32>) outs(%init : tensor<64xf32>) {
  ^bb0(%in: f32, %acc: f32):
    %0 = arith.addf %acc, %in : f32
    linalg.yield %0 : f32
  } -> tensor<64xf32>
  return %y : tensor<64xf32>
}

// Largest element of each column.
func.func @column_max(%x: tensor<300x96xf32>) -> tensor<96xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %empty = tensor.empty() : tensor<96xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%empty : tensor<96xf32>) -> tensor<96xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<300x96xf32>) outs(%init : tensor<96xf32>) {
  ^bb0(%in: f32, %acc: f32):
    %0 = arith.maximumf %acc, %in : f32
    linalg.yield %0 : f32
  } -> tensor<96xf32>
  return %y : tensor<96xf32>
}

// Index and value of the largest element of each row; the first one wins.
func.func @row_argmax(%x: tensor<64x100xf32>) -> (tensor<64xf32>, tensor<64xi32>) {
  %lowest = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0 : i32
  %values = tensor.empty() : tensor<64xf32>
  %indices = tensor.empty() : tensor<64xi32>
  %value_init = linalg.fill ins(%lowest : f32) outs(%values : tensor<64xf32>) -> tensor<64xf32>
  %index_init = linalg.fill ins(%zero : i32) outs(%indices : tensor<64xi32>) -> tensor<64xi32>
  %y:2 = linalg.generic {indexing_maps = [#both, #rows, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<64x100xf32>) outs(%value_init, %index_init : tensor<64xf32>, tensor<64xi32>) {
  ^bb0(%in: f32, %best: f32, %at: i32):
    %j = linalg.index 1 : index
    %ji = arith.index_cast %j : index to i32
    %greater = arith.cmpf ogt, %in, %best : f32
    %0 = arith.select %greater, %in, %best : f32
    %1 = arith.select %greater, %ji, %at : i32
    linalg.yield %0, %1 : f32, i32
  } -> (tensor<64xf32>, tensor<64xi32>)
  return %y#0, %y#1 : tensor<64xf32>, tensor<64xi32>
}

// Sum of all elements, in 32-bit integers.
func.func @total_i32(%x: tensor<4096xi32>) -> tensor<i32> {
  %zero = arith.constant 0 : i32
  %empty = tensor.empty() : tensor<i32>
  %init = linalg.fill ins(%zero : i32) outs(%empty : tensor<i32>) -> tensor<i32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
      ins(%x : tensor<4096xi32>) outs(%init : tensor<i32>) {
  ^bb0(%in: i32, %acc: i32):
    %0 = arith.addi %acc, %in : i32
    linalg.yield %0 : i32
  } -> tensor<i32>
  return %y : tensor<i32>
}
