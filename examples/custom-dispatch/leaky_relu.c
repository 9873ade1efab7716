// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel for the GPU, in C; README.md has the command that compiles it. The
// order of parameters is IREE's: first the bindings of the layout in
// leaky_relu.mlir, then its constants, of 32 bits each.

#define GLOBAL __attribute__((address_space(1)))
#define KERNEL __attribute__((amdgpu_kernel, visibility("protected"), amdgpu_flat_work_group_size(64, 64)))

// y[i] = x[i] where that is positive, else slope * x[i]; for i < count.
KERNEL void leaky_relu(const GLOBAL float* x, GLOBAL float* y, float slope, unsigned count) {
  unsigned i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
  if (i < count) y[i] = x[i] > 0 ? x[i] : slope * x[i];
}
