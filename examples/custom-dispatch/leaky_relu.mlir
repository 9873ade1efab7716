// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A function that calls the kernel of leaky_relu.c between kernels that IREE compiles
// itself: leaky_relu(a * b) + a.
#layout = #hal.pipeline.layout<constants = 2, bindings = [
  #hal.pipeline.binding<storage_buffer, ReadOnly>,
  #hal.pipeline.binding<storage_buffer>
]>
module @custom {
  // The compiler embeds the code object of the target that it compiles for.
  "hal.executable.source"() <{
    sym_name = "kernels", sym_visibility = "private",
    objects = #hal.executable.objects<{
      #hal.executable.target<"rocm", "gfx1100"> = [#hal.executable.object<{path = "leaky_relu.gfx1100.hsaco"}>],
      #hal.executable.target<"rocm", "gfx942"> = [#hal.executable.object<{path = "leaky_relu.gfx942.hsaco"}>]
    }>
  }> ({
    "hal.executable.export"() <{
      sym_name = "leaky_relu", sym_visibility = "public", ordinal = 0 : index, layout = #layout,
      workgroup_size = [64 : index, 1 : index, 1 : index]
    }> ({
    // How many workgroups a dispatch of `count` work-items has.
    ^bb0(%device: !hal.device, %count: index):
      %size = arith.constant 64 : index
      %x = arith.ceildivui %count, %size : index
      %one = arith.constant 1 : index
      hal.return %x, %one, %one : index, index, index
    }, {}) : () -> ()
    "hal.executable.source_end"() : () -> ()
  }) : () -> ()

  func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %zero = arith.constant 0 : index
    // Constants are integers: the float's bits.
    %half = arith.constant 0.5 : f32
    %slope = arith.bitcast %half : f32 to i32
    %length = tensor.dim %a, %zero : tensor<?xf32>
    %count = arith.index_cast %length : index to i32
    %product = arith.mulf %a, %b : tensor<?xf32>
    %activated = flow.dispatch @kernels::@leaky_relu[%length](%product, %slope, %count)
        : (tensor<?xf32>{%length}, i32, i32) -> tensor<?xf32>{%length}
    %sum = arith.addf %activated, %a : tensor<?xf32>
    return %sum : tensor<?xf32>
  }
}
