// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#all = affine_map<(row, column) -> (row, column)>
#row = affine_map<(row, column) -> (row)>
#column = affine_map<(row, column) -> (column)>
func.func @main(%x: tensor<1024x768xf32>, %scale: tensor<768xf32>, %shift: tensor<768xf32>) -> tensor<1024x768xf32> {
  %zero = arith.constant 0.0 : f32
  %width = arith.constant 768.0 : f32
  %epsilon = arith.constant 1.0e-5 : f32
  %of_row = tensor.empty() : tensor<1024xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%of_row : tensor<1024xf32>) -> tensor<1024xf32>
  %sum = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<1024x768xf32>) outs(%zeros : tensor<1024xf32>) {
  ^bb0(%value: f32, %sum_so_far: f32):
    %0 = arith.addf %sum_so_far, %value : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  %squares = linalg.generic {indexing_maps = [#all, #row, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x, %sum : tensor<1024x768xf32>, tensor<1024xf32>) outs(%zeros : tensor<1024xf32>) {
  ^bb0(%value: f32, %row_sum: f32, %sum_so_far: f32):
    %mean = arith.divf %row_sum, %width : f32
    %distance = arith.subf %value, %mean : f32
    %square = arith.mulf %distance, %distance : f32
    %0 = arith.addf %sum_so_far, %square : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  %empty = tensor.empty() : tensor<1024x768xf32>
  %y = linalg.generic {indexing_maps = [#all, #row, #row, #column, #column, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum, %squares, %scale, %shift : tensor<1024x768xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<768xf32>, tensor<768xf32>)
      outs(%empty : tensor<1024x768xf32>) {
  ^bb0(%value: f32, %row_sum: f32, %row_squares: f32, %column_scale: f32, %column_shift: f32, %out: f32):
    %mean = arith.divf %row_sum, %width : f32
    %variance = arith.divf %row_squares, %width : f32
    %positive = arith.addf %variance, %epsilon : f32
    %inverse = math.rsqrt %positive : f32
    %distance = arith.subf %value, %mean : f32
    %normal = arith.mulf %distance, %inverse : f32
    %scaled = arith.mulf %normal, %column_scale : f32
    %0 = arith.addf %scaled, %column_shift : f32
    linalg.yield %0 : f32
  } -> tensor<1024x768xf32>
  return %y : tensor<1024x768xf32>
}
