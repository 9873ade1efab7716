// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Arrays that are read from their ends: compilers fold the ends into immediate offsets of negative addresses.

typedef unsigned int u32;
#define KERNEL __attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(1, 256)))
#define GLOBAL __attribute__((address_space(1)))
#define LOCAL __attribute__((address_space(3)))

static inline u32 item(void) { return __builtin_amdgcn_workitem_id_x(); }

static inline void meet(void) {
  __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup");
}

LOCAL u32 words[64] __attribute__((loader_uninitialized));
LOCAL unsigned long pairs[64] __attribute__((loader_uninitialized));
LOCAL unsigned char bytes[64] __attribute__((loader_uninitialized));

// out[t] = 3 * (63 - t)
KERNEL void reverse_lds(GLOBAL u32 *out) {
  u32 t = item();
  words[t] = 3 * t;
  meet();
  out[t] = words[63 - t];
}

// Stores, bytes, pairs and atomics: out[t] = 5 * (63 - t) + t + 1000 * (63 - t) + 100000 * t
KERNEL void reverse_more_lds(GLOBAL u32 *out) {
  u32 t = item();
  pairs[63 - t] = 0;
  bytes[63 - t] = (unsigned char)(63 - t);
  words[63 - t] = 5 * (63 - t);
  meet();
  __atomic_fetch_add(&words[63 - t], t, __ATOMIC_RELAXED);
  pairs[63 - t] = (unsigned long)bytes[63 - t] << 32 | t;
  meet();
  unsigned long pair = pairs[63 - t];
  out[t] = words[63 - t] + (u32)(pair >> 32) * 1000 + (u32)pair * 100000;
}

// out[t] = 5 * (63 - t), of memory that each work-item has for itself.
KERNEL void reverse_scratch(GLOBAL u32 *out) {
  u32 t = item(), own[64];
  for (u32 i = 0; i < 64; i++) ((volatile u32 *)own)[i] = 5 * i;
  out[t] = own[63 - t];
}

// The same through a pointer that may be to any memory.
__attribute__((noinline)) static void put(u32 *at, u32 value) { *(volatile u32 *)at = value; }

KERNEL void reverse_by_pointer(GLOBAL u32 *out) {
  u32 t = item(), own[64];
  for (u32 i = 0; i < 64; i++) put(&own[63 - i], 5 * (63 - i));
  out[t] = own[63 - t];
}
