// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// LLVM's loops of compare-and-swap begin with a plain load: atomicAdd(double), atomicMax(float) of HIP on RDNA.
#define G __attribute__((address_space(1)))
__attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(1,256))) void casadd(G double*a, G float*m, G unsigned short*h){
  unsigned t=__builtin_amdgcn_workgroup_id_x()*256+__builtin_amdgcn_workitem_id_x();
  __scoped_atomic_fetch_add(a+(t&3), (double)t, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
  __scoped_atomic_fetch_max(m+(t&1), (float)t, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}
