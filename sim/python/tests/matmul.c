// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Product of two square matrices, tile by tile through LDS: a workgroup of 16 x 16 work-items for each tile. Without
// BARRIER, a wave overwrites a tile that another one still reads.

#define GLOBAL __attribute__((address_space(1)))
#define SHARED __attribute__((address_space(3)))

static SHARED __attribute__((loader_uninitialized)) float a_tile[16][16], b_tile[16][16];

static void meet(void) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

__attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(256, 256))) void matmul(const GLOBAL float *a,
                                                                                 const GLOBAL float *b,
                                                                                 GLOBAL float *c, unsigned n) {
  unsigned x = __builtin_amdgcn_workitem_id_x(), y = __builtin_amdgcn_workitem_id_y();
  unsigned row = 16 * __builtin_amdgcn_workgroup_id_y() + y, column = 16 * __builtin_amdgcn_workgroup_id_x() + x;
  float sum = 0;
  for (unsigned k = 0; k < n; k += 16) {
    a_tile[y][x] = a[row * n + k + x];
    b_tile[y][x] = b[(k + y) * n + column];
    meet();
    for (unsigned i = 0; i < 16; ++i) sum += a_tile[y][i] * b_tile[i][x];
#ifdef BARRIER
    meet();
#endif
  }
  c[row * n + column] = sum;
}
