// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#query = affine_map<(head, row, out, inner, key) -> (head, row, inner)>
#key = affine_map<(head, row, out, inner, key) -> (head, key, inner)>
#value = affine_map<(head, row, out, inner, key) -> (head, key, out)>
#scale = affine_map<(head, row, out, inner, key) -> ()>
#result = affine_map<(head, row, out, inner, key) -> (head, row, out)>
func.func @main(%query: tensor<12x256x64xf16>, %key: tensor<12x256x64xf16>, %value: tensor<12x256x64xf16>) -> tensor<12x256x64xf16> {
  %scale = arith.constant 0.125 : f16
  %empty = tensor.empty() : tensor<12x256x64xf16>
  %y = iree_linalg_ext.attention <{indexing_maps = [#query, #key, #value, #scale, #result]}>
      ins(%query, %key, %value, %scale : tensor<12x256x64xf16>, tensor<12x256x64xf16>, tensor<12x256x64xf16>, f16)
      outs(%empty : tensor<12x256x64xf16>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<12x256x64xf16>
  return %y : tensor<12x256x64xf16>
}
