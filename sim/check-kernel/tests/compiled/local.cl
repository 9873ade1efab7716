// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A pointer to LDS whose size the launch chooses, and arguments whose types the metadata states.

kernel void reverse(global uint *out, local uint *tile, local uint *other, float scale, uint n) {
  uint t = __builtin_amdgcn_workitem_id_x();
  tile[t] = t;
  other[t] = 1;
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  out[t] = (uint)(scale * tile[n - 1 - t]) + other[n - 1 - t];
}
