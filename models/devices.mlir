// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Functions whose values lie on several devices. The module names eight, d0 to d7; `devices` of models.toml says which they are, and
// several names may be of the same one.

#d0 = #hal.device.promise<@d0>
#d1 = #hal.device.promise<@d1>
#d2 = #hal.device.promise<@d2>
#d3 = #hal.device.promise<@d3>
#d4 = #hal.device.promise<@d4>
#d5 = #hal.device.promise<@d5>
#d6 = #hal.device.promise<@d6>
#d7 = #hal.device.promise<@d7>

// max(x * w, 0).
func.func private @layer(%x: tensor<16x32xf32>, %w: tensor<32x32xf32>) -> tensor<16x32xf32> {
  %zero = arith.constant 0.0 : f32
  %zeros = tensor.splat %zero : tensor<16x32xf32>
  %product = linalg.matmul ins(%x, %w : tensor<16x32xf32>, tensor<32x32xf32>) outs(%zeros : tensor<16x32xf32>) -> tensor<16x32xf32>
  %result = arith.maximumf %product, %zeros : tensor<16x32xf32>
  return %result : tensor<16x32xf32>
}

// Eight layers, each on the next device, to which the weights go as well.
func.func @pipeline(
    %x0: tensor<16x32xf32> {iree.abi.affinity = #d0}, %w0: tensor<32x32xf32> {iree.abi.affinity = #d0}
) -> (tensor<16x32xf32> {iree.abi.affinity = #d0}) {
  %y0 = call @layer(%x0, %w0) : (tensor<16x32xf32>, tensor<32x32xf32>) -> tensor<16x32xf32>
  %x1 = flow.tensor.transfer %y0 : tensor<16x32xf32> to #d1
  %w1 = flow.tensor.transfer %w0 : tensor<32x32xf32> to #d1
  %y1 = call @layer(%x1, %w1) : (tensor<16x32xf32>, tensor<32x32xf32>) -> tensor<16x32xf32>
  %x2 = flow.tensor.transfer %y1 : tensor<16x32xf32> to #d2
  %w2 = flow.tensor.transfer %w0 : tensor<32x32xf32> to #d2
  %y2 = call @layer(%x2, %w2) : (tensor<16x32xf32>, tensor<32x32xf32>) -> tensor<16x32xf32>
  %x3 = flow.tensor.transfer %y2 : tensor<16x32xf32> to #d3
  %w3 = flow.tensor.transfer %w0 : tensor<32x32xf32> to #d3
  %y3 = call @layer(%x3, %w3) : (tensor<16x32xf32>, tensor<32x32xf32>) -> tensor<16x32xf32>
  %x4 = flow.tensor.transfer %y3 : tensor<16x32xf32> to #d4
  %w4 = flow.tensor.transfer %w0 : tensor<32x32xf32> to #d4
  %y4 = call @layer(%x4, %w4) : (tensor<16x32xf32>, tensor<32x32xf32>) -> tensor<16x32xf32>
  %x5 = flow.tensor.transfer %y4 : tensor<16x32xf32> to #d5
  %w5 = flow.tensor.transfer %w0 : tensor<32x32xf32> to #d5
  %y5 = call @layer(%x5, %w5) : (tensor<16x32xf32>, tensor<32x32xf32>) -> tensor<16x32xf32>
  %x6 = flow.tensor.transfer %y5 : tensor<16x32xf32> to #d6
  %w6 = flow.tensor.transfer %w0 : tensor<32x32xf32> to #d6
  %y6 = call @layer(%x6, %w6) : (tensor<16x32xf32>, tensor<32x32xf32>) -> tensor<16x32xf32>
  %x7 = flow.tensor.transfer %y6 : tensor<16x32xf32> to #d7
  %w7 = flow.tensor.transfer %w0 : tensor<32x32xf32> to #d7
  %y7 = call @layer(%x7, %w7) : (tensor<16x32xf32>, tensor<32x32xf32>) -> tensor<16x32xf32>
  %y = flow.tensor.transfer %y7 : tensor<16x32xf32> to #d0
  return %y : tensor<16x32xf32>
}

// The sum of the rows.
func.func private @total(%x: tensor<8x48xi32>) -> tensor<48xi32> {
  %zero = arith.constant 0 : i32
  %zeros = tensor.splat %zero : tensor<48xi32>
  %sums = linalg.reduce { arith.addi } ins(%x : tensor<8x48xi32>) outs(%zeros : tensor<48xi32>) dimensions = [0]
  return %sums : tensor<48xi32>
}

// Each row times y.
func.func private @scale(%x: tensor<8x48xi32>, %y: tensor<48xi32>) -> tensor<8x48xi32> {
  %empty = tensor.empty() : tensor<8x48xi32>
  %rows = linalg.broadcast ins(%y : tensor<48xi32>) outs(%empty : tensor<8x48xi32>) dimensions = [0]
  %scaled = arith.muli %x, %rows : tensor<8x48xi32>
  return %scaled : tensor<8x48xi32>
}

// x by the sum of its rows: eight rows to a device, whose sums are added on the first and go back to all.
func.func @data_parallel(%x: tensor<64x48xi32> {iree.abi.affinity = #d0}) -> (tensor<64x48xi32> {iree.abi.affinity = #d0}) {
  %slice0 = tensor.extract_slice %x[0, 0] [8, 48] [1, 1] : tensor<64x48xi32> to tensor<8x48xi32>
  %x0 = flow.tensor.transfer %slice0 : tensor<8x48xi32> to #d0
  %part0 = call @total(%x0) : (tensor<8x48xi32>) -> tensor<48xi32>
  %sum0 = flow.tensor.transfer %part0 : tensor<48xi32> to #d0
  %slice1 = tensor.extract_slice %x[8, 0] [8, 48] [1, 1] : tensor<64x48xi32> to tensor<8x48xi32>
  %x1 = flow.tensor.transfer %slice1 : tensor<8x48xi32> to #d1
  %part1 = call @total(%x1) : (tensor<8x48xi32>) -> tensor<48xi32>
  %sum1 = flow.tensor.transfer %part1 : tensor<48xi32> to #d0
  %slice2 = tensor.extract_slice %x[16, 0] [8, 48] [1, 1] : tensor<64x48xi32> to tensor<8x48xi32>
  %x2 = flow.tensor.transfer %slice2 : tensor<8x48xi32> to #d2
  %part2 = call @total(%x2) : (tensor<8x48xi32>) -> tensor<48xi32>
  %sum2 = flow.tensor.transfer %part2 : tensor<48xi32> to #d0
  %slice3 = tensor.extract_slice %x[24, 0] [8, 48] [1, 1] : tensor<64x48xi32> to tensor<8x48xi32>
  %x3 = flow.tensor.transfer %slice3 : tensor<8x48xi32> to #d3
  %part3 = call @total(%x3) : (tensor<8x48xi32>) -> tensor<48xi32>
  %sum3 = flow.tensor.transfer %part3 : tensor<48xi32> to #d0
  %slice4 = tensor.extract_slice %x[32, 0] [8, 48] [1, 1] : tensor<64x48xi32> to tensor<8x48xi32>
  %x4 = flow.tensor.transfer %slice4 : tensor<8x48xi32> to #d4
  %part4 = call @total(%x4) : (tensor<8x48xi32>) -> tensor<48xi32>
  %sum4 = flow.tensor.transfer %part4 : tensor<48xi32> to #d0
  %slice5 = tensor.extract_slice %x[40, 0] [8, 48] [1, 1] : tensor<64x48xi32> to tensor<8x48xi32>
  %x5 = flow.tensor.transfer %slice5 : tensor<8x48xi32> to #d5
  %part5 = call @total(%x5) : (tensor<8x48xi32>) -> tensor<48xi32>
  %sum5 = flow.tensor.transfer %part5 : tensor<48xi32> to #d0
  %slice6 = tensor.extract_slice %x[48, 0] [8, 48] [1, 1] : tensor<64x48xi32> to tensor<8x48xi32>
  %x6 = flow.tensor.transfer %slice6 : tensor<8x48xi32> to #d6
  %part6 = call @total(%x6) : (tensor<8x48xi32>) -> tensor<48xi32>
  %sum6 = flow.tensor.transfer %part6 : tensor<48xi32> to #d0
  %slice7 = tensor.extract_slice %x[56, 0] [8, 48] [1, 1] : tensor<64x48xi32> to tensor<8x48xi32>
  %x7 = flow.tensor.transfer %slice7 : tensor<8x48xi32> to #d7
  %part7 = call @total(%x7) : (tensor<8x48xi32>) -> tensor<48xi32>
  %sum7 = flow.tensor.transfer %part7 : tensor<48xi32> to #d0
  %all1 = arith.addi %sum0, %sum1 : tensor<48xi32>
  %all2 = arith.addi %all1, %sum2 : tensor<48xi32>
  %all3 = arith.addi %all2, %sum3 : tensor<48xi32>
  %all4 = arith.addi %all3, %sum4 : tensor<48xi32>
  %all5 = arith.addi %all4, %sum5 : tensor<48xi32>
  %all6 = arith.addi %all5, %sum6 : tensor<48xi32>
  %all7 = arith.addi %all6, %sum7 : tensor<48xi32>
  %total0 = flow.tensor.transfer %all7 : tensor<48xi32> to #d0
  %scaled0 = call @scale(%x0, %total0) : (tensor<8x48xi32>, tensor<48xi32>) -> tensor<8x48xi32>
  %y0 = flow.tensor.transfer %scaled0 : tensor<8x48xi32> to #d0
  %total1 = flow.tensor.transfer %all7 : tensor<48xi32> to #d1
  %scaled1 = call @scale(%x1, %total1) : (tensor<8x48xi32>, tensor<48xi32>) -> tensor<8x48xi32>
  %y1 = flow.tensor.transfer %scaled1 : tensor<8x48xi32> to #d0
  %total2 = flow.tensor.transfer %all7 : tensor<48xi32> to #d2
  %scaled2 = call @scale(%x2, %total2) : (tensor<8x48xi32>, tensor<48xi32>) -> tensor<8x48xi32>
  %y2 = flow.tensor.transfer %scaled2 : tensor<8x48xi32> to #d0
  %total3 = flow.tensor.transfer %all7 : tensor<48xi32> to #d3
  %scaled3 = call @scale(%x3, %total3) : (tensor<8x48xi32>, tensor<48xi32>) -> tensor<8x48xi32>
  %y3 = flow.tensor.transfer %scaled3 : tensor<8x48xi32> to #d0
  %total4 = flow.tensor.transfer %all7 : tensor<48xi32> to #d4
  %scaled4 = call @scale(%x4, %total4) : (tensor<8x48xi32>, tensor<48xi32>) -> tensor<8x48xi32>
  %y4 = flow.tensor.transfer %scaled4 : tensor<8x48xi32> to #d0
  %total5 = flow.tensor.transfer %all7 : tensor<48xi32> to #d5
  %scaled5 = call @scale(%x5, %total5) : (tensor<8x48xi32>, tensor<48xi32>) -> tensor<8x48xi32>
  %y5 = flow.tensor.transfer %scaled5 : tensor<8x48xi32> to #d0
  %total6 = flow.tensor.transfer %all7 : tensor<48xi32> to #d6
  %scaled6 = call @scale(%x6, %total6) : (tensor<8x48xi32>, tensor<48xi32>) -> tensor<8x48xi32>
  %y6 = flow.tensor.transfer %scaled6 : tensor<8x48xi32> to #d0
  %total7 = flow.tensor.transfer %all7 : tensor<48xi32> to #d7
  %scaled7 = call @scale(%x7, %total7) : (tensor<8x48xi32>, tensor<48xi32>) -> tensor<8x48xi32>
  %y7 = flow.tensor.transfer %scaled7 : tensor<8x48xi32> to #d0
  %y = tensor.concat dim(0) %y0, %y1, %y2, %y3, %y4, %y5, %y6, %y7 :
      (tensor<8x48xi32>, tensor<8x48xi32>, tensor<8x48xi32>, tensor<8x48xi32>, tensor<8x48xi32>, tensor<8x48xi32>, tensor<8x48xi32>, tensor<8x48xi32>) -> tensor<64x48xi32>
  return %y : tensor<64x48xi32>
}

// Forty turns: what the first device adds to, the second multiplies, so that each waits for the other each time.
func.func @ping_pong(%x: tensor<256xi32> {iree.abi.affinity = #d0}, %y: tensor<256xi32> {iree.abi.affinity = #d1}) -> (tensor<256xi32> {iree.abi.affinity = #d0}) {
  %first = arith.constant 0 : index
  %end = arith.constant 40 : index
  %step = arith.constant 1 : index
  %x0 = flow.tensor.transfer %x : tensor<256xi32> to #d0
  %result = scf.for %turn = %first to %end step %step iter_args(%here = %x0) -> (tensor<256xi32>) {
    %sum = arith.addi %here, %x : tensor<256xi32>
    %there = flow.tensor.transfer %sum : tensor<256xi32> to #d1
    %product = arith.muli %there, %y : tensor<256xi32>
    %back = flow.tensor.transfer %product : tensor<256xi32> to #d0
    scf.yield %back : tensor<256xi32>
  }
  return %result : tensor<256xi32>
}

// A global of each device, which it updates twice; the sum of all.
util.global private mutable @state0 {stream.affinity = #d0} = dense<1> : tensor<256xi32>
util.global private mutable @state1 {stream.affinity = #d1} = dense<2> : tensor<256xi32>
util.global private mutable @state2 {stream.affinity = #d2} = dense<3> : tensor<256xi32>
util.global private mutable @state3 {stream.affinity = #d3} = dense<4> : tensor<256xi32>
util.global private mutable @state4 {stream.affinity = #d4} = dense<5> : tensor<256xi32>
util.global private mutable @state5 {stream.affinity = #d5} = dense<6> : tensor<256xi32>
util.global private mutable @state6 {stream.affinity = #d6} = dense<7> : tensor<256xi32>
util.global private mutable @state7 {stream.affinity = #d7} = dense<8> : tensor<256xi32>
func.func private @update(%x: tensor<256xi32> {iree.abi.affinity = #d0}) {
  %x0 = flow.tensor.transfer %x : tensor<256xi32> to #d0
  %old0 = util.global.load @state0 : tensor<256xi32>
  %product0 = arith.muli %old0, %x0 : tensor<256xi32>
  %new0 = arith.addi %product0, %x0 : tensor<256xi32>
  util.global.store %new0, @state0 : tensor<256xi32>
  %x1 = flow.tensor.transfer %x : tensor<256xi32> to #d1
  %old1 = util.global.load @state1 : tensor<256xi32>
  %product1 = arith.muli %old1, %x1 : tensor<256xi32>
  %new1 = arith.addi %product1, %x1 : tensor<256xi32>
  util.global.store %new1, @state1 : tensor<256xi32>
  %x2 = flow.tensor.transfer %x : tensor<256xi32> to #d2
  %old2 = util.global.load @state2 : tensor<256xi32>
  %product2 = arith.muli %old2, %x2 : tensor<256xi32>
  %new2 = arith.addi %product2, %x2 : tensor<256xi32>
  util.global.store %new2, @state2 : tensor<256xi32>
  %x3 = flow.tensor.transfer %x : tensor<256xi32> to #d3
  %old3 = util.global.load @state3 : tensor<256xi32>
  %product3 = arith.muli %old3, %x3 : tensor<256xi32>
  %new3 = arith.addi %product3, %x3 : tensor<256xi32>
  util.global.store %new3, @state3 : tensor<256xi32>
  %x4 = flow.tensor.transfer %x : tensor<256xi32> to #d4
  %old4 = util.global.load @state4 : tensor<256xi32>
  %product4 = arith.muli %old4, %x4 : tensor<256xi32>
  %new4 = arith.addi %product4, %x4 : tensor<256xi32>
  util.global.store %new4, @state4 : tensor<256xi32>
  %x5 = flow.tensor.transfer %x : tensor<256xi32> to #d5
  %old5 = util.global.load @state5 : tensor<256xi32>
  %product5 = arith.muli %old5, %x5 : tensor<256xi32>
  %new5 = arith.addi %product5, %x5 : tensor<256xi32>
  util.global.store %new5, @state5 : tensor<256xi32>
  %x6 = flow.tensor.transfer %x : tensor<256xi32> to #d6
  %old6 = util.global.load @state6 : tensor<256xi32>
  %product6 = arith.muli %old6, %x6 : tensor<256xi32>
  %new6 = arith.addi %product6, %x6 : tensor<256xi32>
  util.global.store %new6, @state6 : tensor<256xi32>
  %x7 = flow.tensor.transfer %x : tensor<256xi32> to #d7
  %old7 = util.global.load @state7 : tensor<256xi32>
  %product7 = arith.muli %old7, %x7 : tensor<256xi32>
  %new7 = arith.addi %product7, %x7 : tensor<256xi32>
  util.global.store %new7, @state7 : tensor<256xi32>
  return
}
func.func @globals(%x: tensor<256xi32> {iree.abi.affinity = #d0}) -> (tensor<256xi32> {iree.abi.affinity = #d0}) {
  call @update(%x) : (tensor<256xi32>) -> ()
  call @update(%x) : (tensor<256xi32>) -> ()
  %state0 = util.global.load @state0 : tensor<256xi32>
  %y0 = flow.tensor.transfer %state0 : tensor<256xi32> to #d0
  %state1 = util.global.load @state1 : tensor<256xi32>
  %y1 = flow.tensor.transfer %state1 : tensor<256xi32> to #d0
  %state2 = util.global.load @state2 : tensor<256xi32>
  %y2 = flow.tensor.transfer %state2 : tensor<256xi32> to #d0
  %state3 = util.global.load @state3 : tensor<256xi32>
  %y3 = flow.tensor.transfer %state3 : tensor<256xi32> to #d0
  %state4 = util.global.load @state4 : tensor<256xi32>
  %y4 = flow.tensor.transfer %state4 : tensor<256xi32> to #d0
  %state5 = util.global.load @state5 : tensor<256xi32>
  %y5 = flow.tensor.transfer %state5 : tensor<256xi32> to #d0
  %state6 = util.global.load @state6 : tensor<256xi32>
  %y6 = flow.tensor.transfer %state6 : tensor<256xi32> to #d0
  %state7 = util.global.load @state7 : tensor<256xi32>
  %y7 = flow.tensor.transfer %state7 : tensor<256xi32> to #d0
  %sum1 = arith.addi %y0, %y1 : tensor<256xi32>
  %sum2 = arith.addi %sum1, %y2 : tensor<256xi32>
  %sum3 = arith.addi %sum2, %y3 : tensor<256xi32>
  %sum4 = arith.addi %sum3, %y4 : tensor<256xi32>
  %sum5 = arith.addi %sum4, %y5 : tensor<256xi32>
  %sum6 = arith.addi %sum5, %y6 : tensor<256xi32>
  %sum7 = arith.addi %sum6, %y7 : tensor<256xi32>
  return %sum7 : tensor<256xi32>
}
