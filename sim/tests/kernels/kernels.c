// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Kernels of the runtime's own tests. Built into kernels.<target>.co by the command in README.md.

#define KERNEL __attribute__((amdgpu_kernel, visibility("default")))
#define GLOBAL __attribute__((address_space(1)))

typedef unsigned int uint32;

__attribute__((visibility("default"))) GLOBAL uint32 test_table[4] = {1, 2, 3, 4};
__attribute__((visibility("default"))) GLOBAL uint32* GLOBAL test_pointer = &test_table[2];

static uint32 global_id(void) {
  return __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
}

// out[i] = value + i
KERNEL void fill(GLOBAL uint32* out, uint32 value, uint32 count) {
  uint32 i = global_id();
  if (i < count) out[i] = value + i;
}

// *counter += 1 for each work-item
KERNEL void count_items(GLOBAL uint32* counter) {
  __scoped_atomic_fetch_add(counter, 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM);
}

// out[i] = *test_pointer * test_table[i]
KERNEL void read_table(GLOBAL uint32* out) {
  uint32 i = global_id();
  if (i < 4) out[i] = *test_pointer * test_table[i];
}

// Runs until *flag is not zero.
KERNEL void spin(GLOBAL uint32* flag) {
  while (!__scoped_atomic_load_n(flag, __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM)) {
    __builtin_amdgcn_s_sleep(1);
  }
}
