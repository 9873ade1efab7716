// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Kernels that tell whether memory or a cache was read. Built into caches.<target>.co by the command in README.md.

#define KERNEL __attribute__((amdgpu_kernel, visibility("default")))
#define GLOBAL __attribute__((address_space(1)))
// The compiler moves no access across it.
#define ORDERED __asm__ volatile("" ::: "memory")

typedef unsigned int uint32;

static uint32 item(void) { return __builtin_amdgcn_workitem_id_x(); }

static void set(GLOBAL uint32* flag) { __scoped_atomic_store_n(flag, 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE); }

static void wait_for(GLOBAL uint32* flag) {
  while (!__scoped_atomic_load_n(flag, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE)) __builtin_amdgcn_s_sleep(1);
}

// to[i] = value
KERNEL void store(GLOBAL uint32* to, uint32 value) { to[item()] = value; }

// to[i] = from[i], by vector loads
KERNEL void copy(GLOBAL uint32* to, GLOBAL uint32* from) { to[item()] = from[item()]; }

// to[i] = from[0], by a scalar load
KERNEL void copy_first(GLOBAL uint32* restrict to, const GLOBAL uint32* restrict from) { to[item()] = from[0]; }

// *counter += 1 for each work-item, for the whole system to see
KERNEL void count(GLOBAL uint32* counter) {
  __scoped_atomic_fetch_add(counter, 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM);
}

// Two workgroups. The second reads data[i] into out[0][i]; then the first sets it to value; then the second reads it
// into out[1][i].
#define HANDSHAKE(name, release, acquire)                                                                          \
  KERNEL void name(GLOBAL uint32* data, GLOBAL uint32* flags, GLOBAL uint32* out, uint32 value) {                 \
    if (__builtin_amdgcn_workgroup_id_x() == 0) {                                                                  \
      wait_for(&flags[0]);                                                                                         \
      data[item()] = value;                                                                                        \
      release;                                                                                                     \
      set(&flags[1]);                                                                                              \
    } else {                                                                                                       \
      out[item()] = data[item()];                                                                                  \
      ORDERED;                                                                                                     \
      set(&flags[0]);                                                                                              \
      wait_for(&flags[1]);                                                                                         \
      acquire;                                                                                                     \
      out[32 + item()] = data[item()];                                                                             \
    }                                                                                                              \
  }

HANDSHAKE(handshake, __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"), __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"))
HANDSHAKE(handshake_without_acquire, __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"), ORDERED)
HANDSHAKE(handshake_without_release, ORDERED, __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"))
HANDSHAKE(handshake_of_workgroup, __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"),
          __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"))
#if defined(__gfx1030__) || defined(__gfx1100__)
HANDSHAKE(handshake_of_gl1, __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"), __asm__ volatile("buffer_gl1_inv" ::: "memory"))
#endif

// A workgroup of 128. The lower half reads data[i] into out[i], the upper half sets it to value, the lower one reads it
// into out[64 + i]: the words of waves of the other compute unit, if there are two.
#define NEIGHBOURS(name, acquire)                                                                                  \
  KERNEL void name(GLOBAL uint32* data, GLOBAL uint32* out, uint32 value) {                                       \
    uint32 i = item() & 63;                                                                                        \
    if (item() < 64) out[i] = data[i];                                                                             \
    ORDERED;                                                                                                       \
    __builtin_amdgcn_s_barrier();                                                                                  \
    if (item() >= 64) data[i ^ 32] = value;                                                                        \
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");                                                         \
    __builtin_amdgcn_s_barrier();                                                                                  \
    acquire;                                                                                                       \
    if (item() < 64) out[64 + i] = data[i];                                                                        \
  }

NEIGHBOURS(neighbours, __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"))
NEIGHBOURS(neighbours_without_acquire, ORDERED)
