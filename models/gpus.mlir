// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Functions whose values lie on several GPUs of one device, d0. Its queues are numbered through all of its GPUs, of which each has two
// by default; with another number of queues the values lie on other GPUs.

#gpu0 = #hal.device.promise<@d0, [0, 1]>
#gpu1 = #hal.device.promise<@d0, [2, 3]>
#second_queue = #hal.device.promise<@d0, [1]>

// Twenty turns: what one GPU adds to, the other multiplies, and another queue of the first one subtracts from.
func.func @gpus_ping_pong(
    %x: tensor<256xi32> {iree.abi.affinity = #gpu0}, %y: tensor<256xi32> {iree.abi.affinity = #gpu1}
) -> (tensor<256xi32> {iree.abi.affinity = #gpu0}) {
  %first = arith.constant 0 : index
  %end = arith.constant 20 : index
  %step = arith.constant 1 : index
  %x0 = flow.tensor.transfer %x : tensor<256xi32> to #gpu0
  %result = scf.for %turn = %first to %end step %step iter_args(%here = %x0) -> (tensor<256xi32>) {
    %sum = arith.addi %here, %x : tensor<256xi32>
    %there = flow.tensor.transfer %sum : tensor<256xi32> to #gpu1
    %product = arith.muli %there, %y : tensor<256xi32>
    %back = flow.tensor.transfer %product : tensor<256xi32> to #second_queue
    %difference = arith.subi %back, %y : tensor<256xi32>
    %next = flow.tensor.transfer %difference : tensor<256xi32> to #gpu0
    scf.yield %next : tensor<256xi32>
  }
  return %result : tensor<256xi32>
}

// A global of each GPU, which it updates; the sum of both.
util.global private mutable @gpus_state0 {stream.affinity = #gpu0} = dense<1> : tensor<256xi32>
util.global private mutable @gpus_state1 {stream.affinity = #gpu1} = dense<2> : tensor<256xi32>
func.func @gpus_globals(%x: tensor<256xi32> {iree.abi.affinity = #gpu0}) -> (tensor<256xi32> {iree.abi.affinity = #gpu0}) {
  %x1 = flow.tensor.transfer %x : tensor<256xi32> to #gpu1
  %old0 = util.global.load @gpus_state0 : tensor<256xi32>
  %old1 = util.global.load @gpus_state1 : tensor<256xi32>
  %new0 = arith.addi %old0, %x : tensor<256xi32>
  %new1 = arith.muli %old1, %x1 : tensor<256xi32>
  util.global.store %new0, @gpus_state0 : tensor<256xi32>
  util.global.store %new1, @gpus_state1 : tensor<256xi32>
  %y1 = flow.tensor.transfer %new1 : tensor<256xi32> to #gpu0
  %sum = arith.addi %new0, %y1 : tensor<256xi32>
  return %sum : tensor<256xi32>
}
