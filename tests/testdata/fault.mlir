// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A module whose dispatches call hand-written kernels of tests/testdata/faults.c: `write_at`, with an index that the caller chooses (far
// out of bounds, the kernel faults), and `trap`.
#layout = #hal.pipeline.layout<constants = 2, bindings = [#hal.pipeline.binding<storage_buffer>]>
#trap = #hal.pipeline.layout<bindings = [#hal.pipeline.binding<storage_buffer>]>
module @fault {
  "hal.executable.source"() <{
    sym_name = "kernels", sym_visibility = "private",
    objects = #hal.executable.objects<{
      #hal.executable.target<"rocm", "gfx1100"> = [#hal.executable.object<{path = "faults.gfx1100.co"}>],
      #hal.executable.target<"rocm", "gfx90a"> = [#hal.executable.object<{path = "faults.gfx90a.co"}>]
    }>
  }> ({
    "hal.executable.export"() <{
      sym_name = "write_at", sym_visibility = "public", ordinal = 0 : index, layout = #layout,
      workgroup_size = [1 : index, 1 : index, 1 : index]
    }> ({
    ^bb0(%device: !hal.device):
      %one = arith.constant 1 : index
      hal.return %one, %one, %one : index, index, index
    }, {}) : () -> ()
    "hal.executable.export"() <{
      sym_name = "trap", sym_visibility = "public", ordinal = 1 : index, layout = #trap,
      workgroup_size = [1 : index, 1 : index, 1 : index]
    }> ({
    ^bb0(%device: !hal.device):
      %one = arith.constant 1 : index
      hal.return %one, %one, %one : index, index, index
    }, {}) : () -> ()
    "hal.executable.source_end"() : () -> ()
  }) : () -> ()
  func.func @write_at(%low: i32, %high: i32, %target: tensor<4xi32>) -> tensor<4xi32> {
    %0 = flow.dispatch @kernels::@write_at(%low, %high, %target) : (i32, i32, tensor<4xi32>) -> %target
    return %0 : tensor<4xi32>
  }
  func.func @trap(%target: tensor<4xi32>) -> tensor<4xi32> {
    %0 = flow.dispatch @kernels::@trap(%target) : (tensor<4xi32>) -> %target
    return %0 : tensor<4xi32>
  }
}
