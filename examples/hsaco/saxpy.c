// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel for the GPU, in C; README.md has the command that compiles it.

#define GLOBAL __attribute__((address_space(1)))
#define KERNEL __attribute__((amdgpu_kernel, visibility("protected"), amdgpu_flat_work_group_size(64, 64)))

// y[i] = a * x[i] + y[i] for i < count; 64 work-items in a workgroup.
KERNEL void saxpy(GLOBAL float* y, const GLOBAL float* x, float a, unsigned count) {
  unsigned i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
  if (i < count) y[i] = a * x[i] + y[i];
}
