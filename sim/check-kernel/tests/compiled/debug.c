// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A kernel of the debugger's tests, which know its lines. One workgroup doubles 64 numbers and reverses their order.

__attribute__((address_space(3), loader_uninitialized)) static unsigned shared[64];

static __attribute__((noinline)) unsigned doubled(unsigned x) {
  return x + x;
}

__attribute__((amdgpu_kernel)) void in_place(__attribute__((address_space(1))) unsigned *y) {
  unsigned i = __builtin_amdgcn_workitem_id_x();
  shared[i] = doubled(y[i]);
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  y[i] = shared[63 - i];
}
