// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Kernels whose waves and workgroups share memory, each with all that orders it. Workgroups have 256 work-items. Built
// into shared.<target>.co by the command in README.md.

#define KERNEL __attribute__((amdgpu_kernel, visibility("default"), amdgpu_flat_work_group_size(256, 256)))
#define GLOBAL __attribute__((address_space(1)))
#define LOCAL static __attribute__((address_space(3), loader_uninitialized))

typedef unsigned int uint32;

static uint32 item(void) { return __builtin_amdgcn_workitem_id_x(); }
static uint32 group(void) { return __builtin_amdgcn_workgroup_id_x(); }

// HIP's __syncthreads: two fences and a barrier.
static void meet(void) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// out[g] = sum of the 256 numbers of workgroup g
KERNEL void reduce(GLOBAL uint32* in, GLOBAL uint32* out) {
  LOCAL uint32 sums[256];
  sums[item()] = in[group() * 256 + item()];
  for (uint32 step = 128; step > 0; step /= 2) {
    meet();
    if (item() < step) sums[item()] += sums[item() + step];
  }
  if (item() == 0) out[group()] = sums[0];
}

// A tile of 16 x 16 through LDS.
KERNEL void transpose(GLOBAL uint32* in, GLOBAL uint32* out) {
  LOCAL uint32 tile[16][17];
  uint32 x = item() % 16, y = item() / 16;
  tile[y][x] = in[group() * 256 + item()];
  meet();
  out[group() * 256 + item()] = tile[x][y];
}

// out[b] += how many numbers have b in their lowest six bits
KERNEL void histogram(GLOBAL uint32* in, GLOBAL uint32* out) {
  LOCAL uint32 counts[64];
  if (item() >= 192) counts[item() - 192] = 0;
  meet();
  __scoped_atomic_fetch_add(&counts[in[group() * 256 + item()] % 64], 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_WRKGRP);
  meet();
  if (item() < 64) __scoped_atomic_fetch_add(&out[item()], counts[item()], __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}

// out[i] = sum of the numbers of the workgroup up to i
KERNEL void scan(GLOBAL uint32* in, GLOBAL uint32* out) {
  LOCAL uint32 sums[256];
  uint32 sum = in[group() * 256 + item()];
  for (uint32 step = 1; step < 256; step *= 2) {
    sums[item()] = sum;
    meet();
    if (item() >= step) sum += sums[item() - step];
    meet();
  }
  out[group() * 256 + item()] = sum;
}

// Sums of neighbours of four rows, of which one is loaded while the one before is worked on.
KERNEL void pipeline(GLOBAL uint32* in, GLOBAL uint32* out) {
  LOCAL uint32 rows[2][256];
  uint32 sum = 0;
  rows[0][item()] = in[item()];
  for (uint32 row = 0; row < 4; ++row) {
    meet();
    if (row < 3) rows[(row + 1) % 2][item()] = in[(row + 1) * 256 + item()];
    sum += rows[row % 2][(item() + 128) % 256];
  }
  out[group() * 256 + item()] = sum;
}

// Numbers of the other half of the workgroup, through memory.
KERNEL void exchange(GLOBAL uint32* in, GLOBAL uint32* out) {
  GLOBAL uint32* numbers = out + group() * 512;
  numbers[item()] = in[item()] + 1;
  meet();
  numbers[256 + item()] = numbers[(item() + 128) % 256];
}

// The workgroup that is counted last adds up the words that all have stored: out[0] counts, out[1] is the sum.
KERNEL void last(GLOBAL uint32* in, GLOBAL uint32* out) {
  if (item() >= 32) return;
  GLOBAL uint32* numbers = out + 64;
  numbers[group() * 32 + item()] = in[group() * 32 + item()];
  if (__scoped_atomic_fetch_add(&out[0], 1, __ATOMIC_ACQ_REL, __MEMORY_SCOPE_DEVICE) != 4 * 32 - 1) return;
  uint32 sum = 0;
  for (uint32 n = 0; n < 128; ++n) sum += numbers[n];
  out[1] = sum;
}

// Workgroup 1 reads the data whose flag workgroup 0 has set.
KERNEL void pass(GLOBAL uint32* in, GLOBAL uint32* out) {
  if (item() != 0) return;
  if (group() == 0) {
    out[16] = in[0] | 1;
    __scoped_atomic_store_n(&out[0], 1, __ATOMIC_RELEASE, __MEMORY_SCOPE_DEVICE);
  } else if (group() == 1) {
    while (!__scoped_atomic_load_n(&out[0], __ATOMIC_ACQUIRE, __MEMORY_SCOPE_DEVICE)) __builtin_amdgcn_s_sleep(1);
    out[32] = out[16];
  }
}
