// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
func.func @main(%x: tensor<128x768xf32>, %w0: tensor<768x768xf32>, %w1: tensor<768x768xf32>, %w2: tensor<768x768xf32>, %w3: tensor<768x768xf32>, %b0: tensor<768xf32>, %b1: tensor<768xf32>, %b2: tensor<768xf32>, %b3: tensor<768xf32>, %wi: tensor<768x3072xf32>, %bi: tensor<3072xf32>, %wo: tensor<3072x768xf32>, %bo: tensor<768xf32>, %g0: tensor<768xf32>, %h0: tensor<768xf32>, %g1: tensor<768xf32>, %h1: tensor<768xf32>) -> tensor<128x768xf32> {
  %zero = arith.constant 0.0 : f32
  %ninf = arith.constant 0xFF800000 : f32
  %invd = arith.constant 1.302083333e-03 : f32
  %eps = arith.constant 1.0e-12 : f32
  %scale = arith.constant 0.125 : f32
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %r2 = arith.constant 0.70710678 : f32
  %v1 = tensor.empty() : tensor<128x768xf32>
  %v2 = linalg.broadcast ins(%b0 : tensor<768xf32>) outs(%v1 : tensor<128x768xf32>) dimensions = [0]
  %v3 = linalg.matmul ins(%x, %w0 : tensor<128x768xf32>, tensor<768x768xf32>) outs(%v2 : tensor<128x768xf32>) -> tensor<128x768xf32>
  %v4 = tensor.empty() : tensor<128x768xf32>
  %v5 = linalg.broadcast ins(%b1 : tensor<768xf32>) outs(%v4 : tensor<128x768xf32>) dimensions = [0]
  %v6 = linalg.matmul ins(%x, %w1 : tensor<128x768xf32>, tensor<768x768xf32>) outs(%v5 : tensor<128x768xf32>) -> tensor<128x768xf32>
  %v7 = tensor.empty() : tensor<128x768xf32>
  %v8 = linalg.broadcast ins(%b2 : tensor<768xf32>) outs(%v7 : tensor<128x768xf32>) dimensions = [0]
  %v9 = linalg.matmul ins(%x, %w2 : tensor<128x768xf32>, tensor<768x768xf32>) outs(%v8 : tensor<128x768xf32>) -> tensor<128x768xf32>
  %v10 = tensor.expand_shape %v3 [[0],[1,2]] output_shape [128,12,64] : tensor<128x768xf32> into tensor<128x12x64xf32>
  %v11 = tensor.empty() : tensor<12x128x64xf32>
  %v12 = linalg.transpose ins(%v10 : tensor<128x12x64xf32>) outs(%v11 : tensor<12x128x64xf32>) permutation = [1, 0, 2]
  %v13 = tensor.expand_shape %v6 [[0],[1,2]] output_shape [128,12,64] : tensor<128x768xf32> into tensor<128x12x64xf32>
  %v14 = tensor.empty() : tensor<12x128x64xf32>
  %v15 = linalg.transpose ins(%v13 : tensor<128x12x64xf32>) outs(%v14 : tensor<12x128x64xf32>) permutation = [1, 0, 2]
  %v16 = tensor.expand_shape %v9 [[0],[1,2]] output_shape [128,12,64] : tensor<128x768xf32> into tensor<128x12x64xf32>
  %v17 = tensor.empty() : tensor<12x128x64xf32>
  %v18 = linalg.transpose ins(%v16 : tensor<128x12x64xf32>) outs(%v17 : tensor<12x128x64xf32>) permutation = [1, 0, 2]
  %v19 = tensor.empty() : tensor<12x128x128xf32>
  %v20 = linalg.fill ins(%zero : f32) outs(%v19 : tensor<12x128x128xf32>) -> tensor<12x128x128xf32>
  %v21 = linalg.batch_matmul indexing_maps = [affine_map<(b,m,n,k) -> (b,m,k)>, affine_map<(b,m,n,k) -> (b,n,k)>, affine_map<(b,m,n,k) -> (b,m,n)>] ins(%v12, %v15 : tensor<12x128x64xf32>, tensor<12x128x64xf32>) outs(%v20 : tensor<12x128x128xf32>) -> tensor<12x128x128xf32>
  %v22 = tensor.empty() : tensor<12x128x128xf32>
  %v23 = linalg.generic {indexing_maps = [affine_map<(d0,d1,d2) -> (d0,d1,d2)>, affine_map<(d0,d1,d2) -> (d0,d1,d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v21 : tensor<12x128x128xf32>) outs(%v22 : tensor<12x128x128xf32>) {
  ^bb0(%x0: f32, %o: f32):
    %p = arith.mulf %x0, %scale : f32
    linalg.yield %p : f32
  } -> tensor<12x128x128xf32>
  %v24 = tensor.empty() : tensor<12x128x128xf32>
  %v25 = linalg.softmax dimension(2) ins(%v23 : tensor<12x128x128xf32>) outs(%v24 : tensor<12x128x128xf32>) -> tensor<12x128x128xf32>
  %v26 = tensor.empty() : tensor<12x128x64xf32>
  %v27 = linalg.fill ins(%zero : f32) outs(%v26 : tensor<12x128x64xf32>) -> tensor<12x128x64xf32>
  %v28 = linalg.batch_matmul ins(%v25, %v18 : tensor<12x128x128xf32>, tensor<12x128x64xf32>) outs(%v27 : tensor<12x128x64xf32>) -> tensor<12x128x64xf32>
  %v29 = tensor.empty() : tensor<128x12x64xf32>
  %v30 = linalg.transpose ins(%v28 : tensor<12x128x64xf32>) outs(%v29 : tensor<128x12x64xf32>) permutation = [1, 0, 2]
  %v31 = tensor.collapse_shape %v30 [[0],[1,2]] : tensor<128x12x64xf32> into tensor<128x768xf32>
  %v32 = tensor.empty() : tensor<128x768xf32>
  %v33 = linalg.broadcast ins(%b3 : tensor<768xf32>) outs(%v32 : tensor<128x768xf32>) dimensions = [0]
  %v34 = linalg.matmul ins(%v31, %w3 : tensor<128x768xf32>, tensor<768x768xf32>) outs(%v33 : tensor<128x768xf32>) -> tensor<128x768xf32>
  %v35 = tensor.empty() : tensor<128x768xf32>
  %v36 = linalg.generic {indexing_maps = [affine_map<(d0,d1) -> (d0,d1)>, affine_map<(d0,d1) -> (d0,d1)>, affine_map<(d0,d1) -> (d0,d1)>], iterator_types = ["parallel", "parallel"]} ins(%v34, %x : tensor<128x768xf32>, tensor<128x768xf32>) outs(%v35 : tensor<128x768xf32>) {
  ^bb0(%x0: f32, %x1: f32, %o: f32):
    %p = arith.addf %x0, %x1 : f32
    linalg.yield %p : f32
  } -> tensor<128x768xf32>
  %v37 = tensor.empty() : tensor<128xf32>
  %v38 = linalg.fill ins(%zero : f32) outs(%v37 : tensor<128xf32>) -> tensor<128xf32>
  %v39 = linalg.generic {indexing_maps = [affine_map<(d0,d1) -> (d0,d1)>, affine_map<(d0,d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%v36 : tensor<128x768xf32>) outs(%v38 : tensor<128xf32>) {
  ^bb0(%x0: f32, %o: f32):
    %s = arith.addf %x0, %o : f32
    linalg.yield %s : f32
  } -> tensor<128xf32>
  %v40 = tensor.empty() : tensor<128x768xf32>
  %v41 = linalg.generic {indexing_maps = [affine_map<(d0,d1) -> (d0,d1)>, affine_map<(d0,d1) -> (d0)>, affine_map<(d0,d1) -> (d0,d1)>], iterator_types = ["parallel", "parallel"]} ins(%v36, %v39 : tensor<128x768xf32>, tensor<128xf32>) outs(%v40 : tensor<128x768xf32>) {
  ^bb0(%x0: f32, %x1: f32, %o: f32):
    %m = arith.mulf %x1, %invd : f32
    %d = arith.subf %x0, %m : f32
    linalg.yield %d : f32
  } -> tensor<128x768xf32>
  %v42 = tensor.empty() : tensor<128xf32>
  %v43 = linalg.fill ins(%zero : f32) outs(%v42 : tensor<128xf32>) -> tensor<128xf32>
  %v44 = linalg.generic {indexing_maps = [affine_map<(d0,d1) -> (d0,d1)>, affine_map<(d0,d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%v41 : tensor<128x768xf32>) outs(%v43 : tensor<128xf32>) {
  ^bb0(%x0: f32, %o: f32):
    %p = arith.mulf %x0, %x0 : f32
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<128xf32>
  %v45 = tensor.empty() : tensor<128x768xf32>
  %v46 = linalg.generic {indexing_maps = [affine_map<(d0,d1) -> (d0,d1)>, affine_map<(d0,d1) -> (d0)>, affine_map<(d0,d1) -> (d1)>, affine_map<(d0,d1) -> (d1)>, affine_map<(d0,d1) -> (d0,d1)>], iterator_types = ["parallel", "parallel"]} ins(%v41, %v44, %g0, %h0 : tensor<128x768xf32>, tensor<128xf32>, tensor<768xf32>, tensor<768xf32>) outs(%v45 : tensor<128x768xf32>) {
  ^bb0(%x0: f32, %x1: f32, %x2: f32, %x3: f32, %o: f32):
    %m = arith.mulf %x1, %invd : f32
    %e = arith.addf %m, %eps : f32
    %r = math.rsqrt %e : f32
    %z = arith.mulf %x0, %r : f32
    %zz = arith.mulf %z, %x2 : f32
    %w = arith.addf %zz, %x3 : f32
    linalg.yield %w : f32
  } -> tensor<128x768xf32>
  %v47 = tensor.empty() : tensor<128x3072xf32>
  %v48 = linalg.broadcast ins(%bi : tensor<3072xf32>) outs(%v47 : tensor<128x3072xf32>) dimensions = [0]
  %v49 = linalg.matmul ins(%v46, %wi : tensor<128x768xf32>, tensor<768x3072xf32>) outs(%v48 : tensor<128x3072xf32>) -> tensor<128x3072xf32>
  %v50 = tensor.empty() : tensor<128x3072xf32>
  %v51 = linalg.generic {indexing_maps = [affine_map<(d0,d1) -> (d0,d1)>, affine_map<(d0,d1) -> (d0,d1)>], iterator_types = ["parallel", "parallel"]} ins(%v49 : tensor<128x3072xf32>) outs(%v50 : tensor<128x3072xf32>) {
  ^bb0(%x0: f32, %o: f32):
    %q = arith.mulf %x0, %r2 : f32
    %e = math.erf %q : f32
    %s = arith.addf %e, %one : f32
    %h = arith.mulf %x0, %half : f32
    %p = arith.mulf %h, %s : f32
    linalg.yield %p : f32
  } -> tensor<128x3072xf32>
  %v52 = tensor.empty() : tensor<128x768xf32>
  %v53 = linalg.broadcast ins(%bo : tensor<768xf32>) outs(%v52 : tensor<128x768xf32>) dimensions = [0]
  %v54 = linalg.matmul ins(%v51, %wo : tensor<128x3072xf32>, tensor<3072x768xf32>) outs(%v53 : tensor<128x768xf32>) -> tensor<128x768xf32>
  %v55 = tensor.empty() : tensor<128x768xf32>
  %v56 = linalg.generic {indexing_maps = [affine_map<(d0,d1) -> (d0,d1)>, affine_map<(d0,d1) -> (d0,d1)>, affine_map<(d0,d1) -> (d0,d1)>], iterator_types = ["parallel", "parallel"]} ins(%v54, %v46 : tensor<128x768xf32>, tensor<128x768xf32>) outs(%v55 : tensor<128x768xf32>) {
  ^bb0(%x0: f32, %x1: f32, %o: f32):
    %p = arith.addf %x0, %x1 : f32
    linalg.yield %p : f32
  } -> tensor<128x768xf32>
  %v57 = tensor.empty() : tensor<128xf32>
  %v58 = linalg.fill ins(%zero : f32) outs(%v57 : tensor<128xf32>) -> tensor<128xf32>
  %v59 = linalg.generic {indexing_maps = [affine_map<(d0,d1) -> (d0,d1)>, affine_map<(d0,d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%v56 : tensor<128x768xf32>) outs(%v58 : tensor<128xf32>) {
  ^bb0(%x0: f32, %o: f32):
    %s = arith.addf %x0, %o : f32
    linalg.yield %s : f32
  } -> tensor<128xf32>
  %v60 = tensor.empty() : tensor<128x768xf32>
  %v61 = linalg.generic {indexing_maps = [affine_map<(d0,d1) -> (d0,d1)>, affine_map<(d0,d1) -> (d0)>, affine_map<(d0,d1) -> (d0,d1)>], iterator_types = ["parallel", "parallel"]} ins(%v56, %v59 : tensor<128x768xf32>, tensor<128xf32>) outs(%v60 : tensor<128x768xf32>) {
  ^bb0(%x0: f32, %x1: f32, %o: f32):
    %m = arith.mulf %x1, %invd : f32
    %d = arith.subf %x0, %m : f32
    linalg.yield %d : f32
  } -> tensor<128x768xf32>
  %v62 = tensor.empty() : tensor<128xf32>
  %v63 = linalg.fill ins(%zero : f32) outs(%v62 : tensor<128xf32>) -> tensor<128xf32>
  %v64 = linalg.generic {indexing_maps = [affine_map<(d0,d1) -> (d0,d1)>, affine_map<(d0,d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%v61 : tensor<128x768xf32>) outs(%v63 : tensor<128xf32>) {
  ^bb0(%x0: f32, %o: f32):
    %p = arith.mulf %x0, %x0 : f32
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<128xf32>
  %v65 = tensor.empty() : tensor<128x768xf32>
  %v66 = linalg.generic {indexing_maps = [affine_map<(d0,d1) -> (d0,d1)>, affine_map<(d0,d1) -> (d0)>, affine_map<(d0,d1) -> (d1)>, affine_map<(d0,d1) -> (d1)>, affine_map<(d0,d1) -> (d0,d1)>], iterator_types = ["parallel", "parallel"]} ins(%v61, %v64, %g1, %h1 : tensor<128x768xf32>, tensor<128xf32>, tensor<768xf32>, tensor<768xf32>) outs(%v65 : tensor<128x768xf32>) {
  ^bb0(%x0: f32, %x1: f32, %x2: f32, %x3: f32, %o: f32):
    %m = arith.mulf %x1, %invd : f32
    %e = arith.addf %m, %eps : f32
    %r = math.rsqrt %e : f32
    %z = arith.mulf %x0, %r : f32
    %zz = arith.mulf %z, %x2 : f32
    %w = arith.addf %zz, %x3 : f32
    linalg.yield %w : f32
  } -> tensor<128x768xf32>
  return %v66 : tensor<128x768xf32>
}
