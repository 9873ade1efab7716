// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Kernels with names in C++, of which two differ by their parameters.

#define GLOBAL __attribute__((address_space(1)))

namespace ns {
__attribute__((amdgpu_kernel)) void scale(GLOBAL float *out, float by) { out[__builtin_amdgcn_workitem_id_x()] *= by; }
__attribute__((amdgpu_kernel)) void add(GLOBAL float *out, float by) { out[__builtin_amdgcn_workitem_id_x()] += by; }
__attribute__((amdgpu_kernel)) void add(GLOBAL unsigned *out, unsigned by) {
  out[__builtin_amdgcn_workitem_id_x()] += by;
}
} // namespace ns
