// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Workgroups that wait for each other: a barrier of the whole grid, and a scan that looks back.

typedef unsigned u32; typedef unsigned long u64;
#define K __attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(1,256)))
#define G __attribute__((address_space(1)))
#define L __attribute__((address_space(3)))
#define DEV __MEMORY_SCOPE_DEVICE
// Every workgroup adds 1 to its slot, meets all the others, and reads its neighbour's slot of the turn before. args:
// slots (groups u32), counter (u32, 0), out (groups u32), groups, turns
K void gridbar(G u32*slot, G u32*counter, G u32*out, u32 groups, u32 turns){
  u32 g=__builtin_amdgcn_workgroup_id_x(), t=__builtin_amdgcn_workitem_id_x();
  u32 sum=0;
  for(u32 k=0;k<turns;k++){
    if(t==0) slot[g]=k*groups+g;
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST,"workgroup"); __builtin_amdgcn_s_barrier();
    if(t==0){
      __scoped_atomic_fetch_add(counter,1u,__ATOMIC_ACQ_REL,DEV);
      while(__scoped_atomic_load_n(counter,__ATOMIC_ACQUIRE,DEV)<groups*(2*k+1)) __builtin_amdgcn_s_sleep(1);
      sum+=slot[(g+1)%groups];
      __scoped_atomic_fetch_add(counter,1u,__ATOMIC_ACQ_REL,DEV);
      while(__scoped_atomic_load_n(counter,__ATOMIC_ACQUIRE,DEV)<groups*(2*k+2)) __builtin_amdgcn_s_sleep(1);
    }
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST,"workgroup"); __builtin_amdgcn_s_barrier();
  }
  if(t==0) out[g]=sum;
}
// Payload is read by all waves after one lane's acquire and a barrier: right in CU mode, a stale line on the other CU
// of a WGP.
K void lookback(G const u32*x, G u32*y, G u32*flag, G u32*part){
  u32 g=__builtin_amdgcn_workgroup_id_x(), t=__builtin_amdgcn_workitem_id_x();
  u32 warm = part[g? g-1 : 0];            // brings the line into this CU's cache (0)
  u32 v=x[g*256+t] + (warm & 0);
  if(g>0){
    if(t==0) while(__scoped_atomic_load_n(flag+g-1,__ATOMIC_ACQUIRE,DEV)==0) __builtin_amdgcn_s_sleep(1);
    __builtin_amdgcn_s_barrier();
  }
  u32 prev = g? *(volatile G u32*)(part+g-1):0;
  y[g*256+t]=v+prev;
  __builtin_amdgcn_s_barrier();
  if(t==255){ part[g]=prev+x[g*256+255]; __scoped_atomic_store_n(flag+g,1u,__ATOMIC_RELEASE,DEV); }
}
// The last workgroup to count itself adds up the words of all. args: out (256 u32), part (256 groups u32), counter
// (u32, 0), groups
static L u32 before __attribute__((loader_uninitialized));
K void last(G u32*out, G u32*part, G u32*counter, u32 groups){
  u32 g=__builtin_amdgcn_workgroup_id_x(), t=__builtin_amdgcn_workitem_id_x();
  part[g*256+t]=g+t;
  __builtin_amdgcn_fence(__ATOMIC_SEQ_CST,"workgroup"); __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_SEQ_CST,"workgroup");
  if(t==0) before=__scoped_atomic_fetch_add(counter,1u,__ATOMIC_ACQ_REL,DEV);
  __builtin_amdgcn_fence(__ATOMIC_SEQ_CST,"workgroup"); __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_SEQ_CST,"workgroup");
  if(before!=groups-1) return;
  u32 sum=0;
  // Other waves' stores.
  for(u32 k=0;k<groups;k++) sum+=part[k*256+(t^128)];
  out[t]=sum;
}
