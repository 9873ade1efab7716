// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A product of matrices on one GPU of a device, which its second one multiplies; the first adds to what comes of it.
// Numbers are those of queues, of which each GPU has two.
#first = #hal.device.promise<@gpus, [0]>
#second = #hal.device.promise<@gpus, [2]>

func.func @main(%x: tensor<64x64xf32> {iree.abi.affinity = #first}, %w: tensor<64x64xf32> {iree.abi.affinity = #first})
    -> (tensor<64x64xf32> {iree.abi.affinity = #first}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x64xf32>) -> tensor<64x64xf32>
  %there = flow.tensor.transfer %w : tensor<64x64xf32> to #second
  %0 = linalg.matmul ins(%x, %w : tensor<64x64xf32>, tensor<64x64xf32>)
      outs(%init : tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = flow.tensor.transfer %0 : tensor<64x64xf32> to #second
  %2 = linalg.matmul ins(%1, %there : tensor<64x64xf32>, tensor<64x64xf32>)
      outs(%init : tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = flow.tensor.transfer %2 : tensor<64x64xf32> to #first
  %4 = arith.addf %3, %x : tensor<64x64xf32>
  return %4 : tensor<64x64xf32>
}
