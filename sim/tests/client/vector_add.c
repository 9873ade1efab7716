// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The kernel of client.c. Built into vector_add.gfx1100.co by the command in README.md.

#define GLOBAL __attribute__((address_space(1)))

// sum[i] = a[i] + b[i], in workgroups of 256
__attribute__((amdgpu_kernel, visibility("default"))) void vector_add(GLOBAL const float* a, GLOBAL const float* b,
                                                                      GLOBAL float* sum, unsigned count) {
  unsigned i = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
  if (i < count) sum[i] = a[i] + b[i];
}
