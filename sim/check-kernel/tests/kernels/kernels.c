// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Kernels of the checker's tests. Built into kernels.gfx1100.co by the command in README.md.

#define KERNEL __attribute__((amdgpu_kernel, visibility("default"), amdgpu_flat_work_group_size(1, 256)))
#define GLOBAL __attribute__((address_space(1)))
#define CONSTANT __attribute__((address_space(4)))
#define LOCAL static __attribute__((address_space(3), loader_uninitialized))

typedef unsigned int uint32;
typedef unsigned short uint16;

static uint32 item(void) { return __builtin_amdgcn_workitem_id_x(); }

// HIP's __syncthreads: two fences and a barrier.
static void meet(void) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// out[i] = scale * (in[i] + in[i + 32]) for some rows of 256 numbers, by a tile in LDS. There is no barrier between the
// reads of a row and the writes of the next one.
KERNEL void neighbours(GLOBAL float* in, GLOBAL float* out, float scale, uint32 rows) {
  LOCAL float tile[256];
  for (uint32 row = 0; row < rows; ++row) {
    tile[item()] = in[row * 256 + item()];
    meet();
    out[row * 256 + item()] = scale * (tile[item()] + tile[(item() + 32) % 256]);
  }
}

// The hidden arguments: workgroups, work-items of one, dimensions.
KERNEL void shape(GLOBAL uint32* out) {
  CONSTANT uint32* counts = __builtin_amdgcn_implicitarg_ptr();
  CONSTANT uint16* sizes = (CONSTANT uint16*)(counts + 3);
  if (item() != 0) return;
  for (uint32 n = 0; n < 3; ++n) {
    out[n] = counts[n];
    out[3 + n] = sizes[n];
  }
  out[6] = ((CONSTANT uint16*)counts)[32];
}

// The sum of the numbers up to n, by calls of itself.
static __attribute__((noinline, optnone)) uint32 sum(uint32 n) { return n == 0 ? 0 : n + sum(n - 1); }

KERNEL void deep(GLOBAL uint32* out, uint32 n) { *out = sum(n); }
