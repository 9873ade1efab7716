// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A function whose values several devices use where they lie. The module names eight, d0 to d7; `devices` of models.toml says which they
// are. The first is linked with each of the others, so that the compiler copies nothing between them: values of the first device's memory
// are operands of the others' kernels, and the other way round.

#d0 = #hal.device.promise<@d0>
#d1 = #hal.device.promise<@d1>
#d2 = #hal.device.promise<@d2>
#d3 = #hal.device.promise<@d3>
#d4 = #hal.device.promise<@d4>
#d5 = #hal.device.promise<@d5>
#d6 = #hal.device.promise<@d6>
#d7 = #hal.device.promise<@d7>

module attributes {stream.topology = #hal.device.topology<links = [
  (@d0 -> @d1 = {transparent_access = true}), (@d1 -> @d0 = {transparent_access = true}),
  (@d0 -> @d2 = {transparent_access = true}), (@d2 -> @d0 = {transparent_access = true}),
  (@d0 -> @d3 = {transparent_access = true}), (@d3 -> @d0 = {transparent_access = true}),
  (@d0 -> @d4 = {transparent_access = true}), (@d4 -> @d0 = {transparent_access = true}),
  (@d0 -> @d5 = {transparent_access = true}), (@d5 -> @d0 = {transparent_access = true}),
  (@d0 -> @d6 = {transparent_access = true}), (@d6 -> @d0 = {transparent_access = true}),
  (@d0 -> @d7 = {transparent_access = true}), (@d7 -> @d0 = {transparent_access = true})
]>} {

// The first device squares x, each of the others does something else with that, and the first one adds what they made.
func.func @fan_out(%x: tensor<256xi32> {iree.abi.affinity = #d0}) -> (tensor<256xi32> {iree.abi.affinity = #d0}) {
  %square = arith.muli %x, %x : tensor<256xi32>
  %x1 = flow.tensor.transfer %square : tensor<256xi32> to #d1
  %c1 = arith.constant dense<37> : tensor<256xi32>
  %y1 = arith.muli %x1, %c1 : tensor<256xi32>
  %z1 = flow.tensor.transfer %y1 : tensor<256xi32> to #d0
  %x2 = flow.tensor.transfer %square : tensor<256xi32> to #d2
  %c2 = arith.constant dense<74> : tensor<256xi32>
  %y2 = arith.xori %x2, %c2 : tensor<256xi32>
  %z2 = flow.tensor.transfer %y2 : tensor<256xi32> to #d0
  %x3 = flow.tensor.transfer %square : tensor<256xi32> to #d3
  %c3 = arith.constant dense<111> : tensor<256xi32>
  %y3 = arith.addi %x3, %c3 : tensor<256xi32>
  %z3 = flow.tensor.transfer %y3 : tensor<256xi32> to #d0
  %x4 = flow.tensor.transfer %square : tensor<256xi32> to #d4
  %c4 = arith.constant dense<148> : tensor<256xi32>
  %y4 = arith.muli %x4, %c4 : tensor<256xi32>
  %z4 = flow.tensor.transfer %y4 : tensor<256xi32> to #d0
  %x5 = flow.tensor.transfer %square : tensor<256xi32> to #d5
  %c5 = arith.constant dense<185> : tensor<256xi32>
  %y5 = arith.xori %x5, %c5 : tensor<256xi32>
  %z5 = flow.tensor.transfer %y5 : tensor<256xi32> to #d0
  %x6 = flow.tensor.transfer %square : tensor<256xi32> to #d6
  %c6 = arith.constant dense<222> : tensor<256xi32>
  %y6 = arith.addi %x6, %c6 : tensor<256xi32>
  %z6 = flow.tensor.transfer %y6 : tensor<256xi32> to #d0
  %x7 = flow.tensor.transfer %square : tensor<256xi32> to #d7
  %c7 = arith.constant dense<259> : tensor<256xi32>
  %y7 = arith.muli %x7, %c7 : tensor<256xi32>
  %z7 = flow.tensor.transfer %y7 : tensor<256xi32> to #d0
  %sum1 = arith.addi %square, %z1 : tensor<256xi32>
  %sum2 = arith.addi %sum1, %z2 : tensor<256xi32>
  %sum3 = arith.addi %sum2, %z3 : tensor<256xi32>
  %sum4 = arith.addi %sum3, %z4 : tensor<256xi32>
  %sum5 = arith.addi %sum4, %z5 : tensor<256xi32>
  %sum6 = arith.addi %sum5, %z6 : tensor<256xi32>
  %sum7 = arith.addi %sum6, %z7 : tensor<256xi32>
  return %sum7 : tensor<256xi32>
}

}
