// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One layer of a transformer's encoder, 32 tokens of 64 features, one head: attention, normalisation and a perceptron
// of 128 hidden units, each added to what it gets. The weights are parameters, which a file holds.
#both = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>

util.global private @wq = #flow.parameter.named<"model"::"wq"> : tensor<64x64xf32>
util.global private @wk = #flow.parameter.named<"model"::"wk"> : tensor<64x64xf32>
util.global private @wv = #flow.parameter.named<"model"::"wv"> : tensor<64x64xf32>
util.global private @w1 = #flow.parameter.named<"model"::"w1"> : tensor<64x128xf32>
util.global private @w2 = #flow.parameter.named<"model"::"w2"> : tensor<128x64xf32>

func.func private @normalise(%x: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %zero = arith.constant 0.0 : f32
  %count = arith.constant 64.0 : f32
  %epsilon = arith.constant 1.0e-5 : f32
  %rows = tensor.empty() : tensor<32xf32>
  %full = tensor.empty() : tensor<32x64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%rows : tensor<32xf32>) -> tensor<32xf32>
  %sum = linalg.generic {indexing_maps = [#both, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<32x64xf32>) outs(%init : tensor<32xf32>) {
  ^bb0(%in: f32, %acc: f32):
    %0 = arith.addf %acc, %in : f32
    linalg.yield %0 : f32
  } -> tensor<32xf32>
  %square_sum = linalg.generic {indexing_maps = [#both, #rows, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x, %sum : tensor<32x64xf32>, tensor<32xf32>) outs(%init : tensor<32xf32>) {
  ^bb0(%in: f32, %s: f32, %acc: f32):
    %mean = arith.divf %s, %count : f32
    %d = arith.subf %in, %mean : f32
    %0 = arith.mulf %d, %d : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<32xf32>
  %y = linalg.generic {indexing_maps = [#both, #rows, #rows, #both], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum, %square_sum : tensor<32x64xf32>, tensor<32xf32>, tensor<32xf32>) outs(%full : tensor<32x64xf32>) {
  ^bb0(%in: f32, %s: f32, %q: f32, %out: f32):
    %mean = arith.divf %s, %count : f32
    %var = arith.divf %q, %count : f32
    %d = arith.subf %in, %mean : f32
    %e = arith.addf %var, %epsilon : f32
    %r = math.rsqrt %e : f32
    %0 = arith.mulf %d, %r : f32
    linalg.yield %0 : f32
  } -> tensor<32x64xf32>
  return %y : tensor<32x64xf32>
}

func.func @encode(%x: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %wq = util.global.load @wq : tensor<64x64xf32>
  %wk = util.global.load @wk : tensor<64x64xf32>
  %wv = util.global.load @wv : tensor<64x64xf32>
  %w1 = util.global.load @w1 : tensor<64x128xf32>
  %w2 = util.global.load @w2 : tensor<128x64xf32>
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant dense<0.125> : tensor<32x32xf32>
  %q_e = tensor.empty() : tensor<32x64xf32>
  %q_i = linalg.fill ins(%zero : f32) outs(%q_e : tensor<32x64xf32>) -> tensor<32x64xf32>
  %q = linalg.matmul ins(%x, %wq : tensor<32x64xf32>, tensor<64x64xf32>)
      outs(%q_i : tensor<32x64xf32>) -> tensor<32x64xf32>
  %k_e = tensor.empty() : tensor<32x64xf32>
  %k_i = linalg.fill ins(%zero : f32) outs(%k_e : tensor<32x64xf32>) -> tensor<32x64xf32>
  %k = linalg.matmul ins(%x, %wk : tensor<32x64xf32>, tensor<64x64xf32>)
      outs(%k_i : tensor<32x64xf32>) -> tensor<32x64xf32>
  %v_e = tensor.empty() : tensor<32x64xf32>
  %v_i = linalg.fill ins(%zero : f32) outs(%v_e : tensor<32x64xf32>) -> tensor<32x64xf32>
  %v = linalg.matmul ins(%x, %wv : tensor<32x64xf32>, tensor<64x64xf32>)
      outs(%v_i : tensor<32x64xf32>) -> tensor<32x64xf32>
  %kt_e = tensor.empty() : tensor<64x32xf32>
  %kt = linalg.transpose ins(%k : tensor<32x64xf32>) outs(%kt_e : tensor<64x32xf32>) permutation = [1, 0]
  %s_e = tensor.empty() : tensor<32x32xf32>
  %s_i = linalg.fill ins(%zero : f32) outs(%s_e : tensor<32x32xf32>) -> tensor<32x32xf32>
  %s = linalg.matmul ins(%q, %kt : tensor<32x64xf32>, tensor<64x32xf32>)
      outs(%s_i : tensor<32x32xf32>) -> tensor<32x32xf32>
  %scaled = arith.mulf %s, %scale : tensor<32x32xf32>
  %p = linalg.softmax dimension(1) ins(%scaled : tensor<32x32xf32>) outs(%s_e : tensor<32x32xf32>) -> tensor<32x32xf32>
  %a_e = tensor.empty() : tensor<32x64xf32>
  %a_i = linalg.fill ins(%zero : f32) outs(%a_e : tensor<32x64xf32>) -> tensor<32x64xf32>
  %a = linalg.matmul ins(%p, %v : tensor<32x32xf32>, tensor<32x64xf32>)
      outs(%a_i : tensor<32x64xf32>) -> tensor<32x64xf32>
  %r1 = arith.addf %x, %a : tensor<32x64xf32>
  %n1 = func.call @normalise(%r1) : (tensor<32x64xf32>) -> tensor<32x64xf32>
  %h_e = tensor.empty() : tensor<32x128xf32>
  %h_i = linalg.fill ins(%zero : f32) outs(%h_e : tensor<32x128xf32>) -> tensor<32x128xf32>
  %h = linalg.matmul ins(%n1, %w1 : tensor<32x64xf32>, tensor<64x128xf32>)
      outs(%h_i : tensor<32x128xf32>) -> tensor<32x128xf32>
  %zeros = arith.constant dense<0.0> : tensor<32x128xf32>
  %g = arith.maximumf %h, %zeros : tensor<32x128xf32>
  %m_e = tensor.empty() : tensor<32x64xf32>
  %m_i = linalg.fill ins(%zero : f32) outs(%m_e : tensor<32x64xf32>) -> tensor<32x64xf32>
  %m = linalg.matmul ins(%g, %w2 : tensor<32x128xf32>, tensor<128x64xf32>)
      outs(%m_i : tensor<32x64xf32>) -> tensor<32x64xf32>
  %r2 = arith.addf %n1, %m : tensor<32x64xf32>
  %n2 = func.call @normalise(%r2) : (tensor<32x64xf32>) -> tensor<32x64xf32>
  return %n2 : tensor<32x64xf32>
}
