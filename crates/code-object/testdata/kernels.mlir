// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two small kernels: `scale` uses two constants and two bindings, `copy` two bindings.
#layout = #hal.pipeline.layout<constants = 2, bindings = [
  #hal.pipeline.binding<storage_buffer>,
  #hal.pipeline.binding<storage_buffer>
]>
#copy_layout = #hal.pipeline.layout<bindings = [
  #hal.pipeline.binding<storage_buffer>,
  #hal.pipeline.binding<storage_buffer>
]>
hal.executable.source public @kernels {
  hal.executable.export public @scale ordinal(0) layout(#layout) count(%device: !hal.device) -> (index, index, index) {
    %c1 = arith.constant 1 : index
    hal.return %c1, %c1, %c1 : index, index, index
  } <workgroup_size = [1 : index, 1 : index, 1 : index]>
  hal.executable.export public @copy ordinal(1) layout(#copy_layout) count(%device: !hal.device) -> (index, index, index) {
    %c1 = arith.constant 1 : index
    hal.return %c1, %c1, %c1 : index, index, index
  } <workgroup_size = [1 : index, 1 : index, 1 : index]>
  builtin.module {
    func.func @scale() {
      %factor = hal.interface.constant.load layout(#layout) ordinal(0) : i32
      %bias = hal.interface.constant.load layout(#layout) ordinal(1) : i32
      %in = hal.interface.binding.subspan layout(#layout) binding(0) : memref<4xi32>
      %out = hal.interface.binding.subspan layout(#layout) binding(1) : memref<4xi32>
      %i = gpu.thread_id x
      %x = memref.load %in[%i] : memref<4xi32>
      %product = arith.muli %x, %factor : i32
      %sum = arith.addi %product, %bias : i32
      memref.store %sum, %out[%i] : memref<4xi32>
      return
    }
    func.func @copy() {
      %c0 = arith.constant 0 : index
      %in = hal.interface.binding.subspan layout(#copy_layout) binding(0) : memref<4xi32>
      %out = hal.interface.binding.subspan layout(#copy_layout) binding(1) : memref<4xi32>
      %x = memref.load %in[%c0] : memref<4xi32>
      memref.store %x, %out[%c0] : memref<4xi32>
      return
    }
  }
}
