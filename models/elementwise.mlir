// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One function per transcendental operation, so that a wrong one is named by its test.

func.func @exp(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.exp %in : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

func.func @exp2(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.exp2 %in : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

func.func @expm1(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.expm1 %in : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

func.func @log(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.log %in : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

func.func @log2(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.log2 %in : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

func.func @log1p(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.log1p %in : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

func.func @tanh(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.tanh %in : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

func.func @sin(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.sin %in : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

func.func @cos(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.cos %in : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

func.func @tan(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.tan %in : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

func.func @atan(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.atan %in : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

func.func @erf(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.erf %in : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

func.func @sqrt(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.sqrt %in : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

func.func @rsqrt(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.rsqrt %in : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

func.func @cbrt(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.cbrt %in : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

func.func @floor(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.floor %in : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

func.func @ceil(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.ceil %in : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

func.func @round(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.round %in : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

func.func @roundeven(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.roundeven %in : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

func.func @absf(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.absf %in : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

func.func @powf(%x: tensor<1024xf32>, %y: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<1024xf32>, tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = math.powf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %z : tensor<1024xf32>
}

func.func @atan2(%x: tensor<1024xf32>, %y: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<1024xf32>, tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = math.atan2 %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %z : tensor<1024xf32>
}

func.func @divf(%x: tensor<1024xf32>, %y: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<1024xf32>, tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.divf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %z : tensor<1024xf32>
}

func.func @remf(%x: tensor<1024xf32>, %y: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<1024xf32>, tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.remf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %z : tensor<1024xf32>
}

func.func @maximumf(%x: tensor<1024xf32>, %y: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<1024xf32>, tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.maximumf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %z : tensor<1024xf32>
}

func.func @minimumf(%x: tensor<1024xf32>, %y: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<1024xf32>, tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.minimumf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %z : tensor<1024xf32>
}

func.func @copysign(%x: tensor<1024xf32>, %y: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<1024xf32>, tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = math.copysign %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<1024xf32>
  return %z : tensor<1024xf32>
}
