// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels for tests. Build, likewise for gfx942:
//   clang-22 -x c -std=c23 -nogpulib -target amdgcn-amd-amdhsa -mcpu=gfx1100 -O2 -mcode-object-version=5 -fno-ident \
//     -fuse-ld=lld -Wl,--discard-all kernels.c -o kernels.gfx1100.co

#define GLOBAL __attribute__((address_space(1)))
#define CONSTANT __attribute__((address_space(4)))
#define KERNEL __attribute__((amdgpu_kernel, visibility("protected")))

// Each workgroup stores `value` and the implicit argument that counts workgroups in x.
KERNEL void report(GLOBAL int* target, int value) {
  const CONSTANT int* implicit = (const CONSTANT int*)__builtin_amdgcn_implicitarg_ptr();
  unsigned group = __builtin_amdgcn_workgroup_id_x();
  target[2 * group] = value;
  target[2 * group + 1] = implicit[0];
}

// Runs until the host stores something other than 0, which holds back the work behind it on the queue.
KERNEL void hold(GLOBAL int* flag) {
  while (__scoped_atomic_load_n(flag, __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM) == 0) __builtin_amdgcn_s_sleep(1);
}

// As `report` does, but a lane reads the implicit argument by way of the vector caches.
KERNEL void report_by_lane(GLOBAL int* target, int value) {
  unsigned lane = __builtin_amdgcn_workitem_id_x();
  const GLOBAL int* implicit = (const GLOBAL int*)(unsigned long)__builtin_amdgcn_implicitarg_ptr() + (lane & 1);
  unsigned group = __builtin_amdgcn_workgroup_id_x();
  if (lane == 0) {
    target[2 * group] = value;
    target[2 * group + 1] = *implicit;
  }
}

// As `hold` does, reading its arguments again and again by way of the vector caches, which keeps their line there.
KERNEL void hold_reading(GLOBAL int* flag, GLOBAL int* sums) {
  unsigned lane = __builtin_amdgcn_workitem_id_x();
  const GLOBAL int* own = (const GLOBAL int*)(unsigned long)__builtin_amdgcn_kernarg_segment_ptr() + (lane & 3);
  int sum = 0;
  while (__scoped_atomic_load_n(flag, __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM) == 0) {
    sum += __scoped_atomic_load_n(own, __ATOMIC_RELAXED, __MEMORY_SCOPE_WVFRNT);
    __builtin_amdgcn_s_sleep(1);
  }
  sums[__builtin_amdgcn_workgroup_id_x()] = sum;
}
