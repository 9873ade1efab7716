// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of tests/soak. Build, for each target TARGET that the software GPU plays:
//   clang-22 -x c -std=c23 -nogpulib -target amdgcn-amd-amdhsa -mcpu=TARGET -O2 -mcode-object-version=5 -fno-ident \
//     -fuse-ld=lld -Wl,--discard-all soak.c -o soak.TARGET.co

#define GLOBAL __attribute__((address_space(1)))
#define KERNEL __attribute__((amdgpu_kernel, visibility("protected"), amdgpu_flat_work_group_size(64, 64)))

static unsigned item(void) { return __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x(); }

// target[i] = a[i] * factor + b[i] for i < count. The target may be one of the sources.
KERNEL void combine(GLOBAL unsigned* target, const GLOBAL unsigned* a, const GLOBAL unsigned* b, unsigned factor,
                    unsigned count) {
  unsigned i = item();
  if (i < count) target[i] = a[i] * factor + b[i];
}

// target[i] = source[i * factor % count] for i < count: most elements are words that other workgroups' neighbours
// wrote.
KERNEL void gather(GLOBAL unsigned* target, const GLOBAL unsigned* source, unsigned factor, unsigned count) {
  unsigned i = item();
  if (i < count) target[i] = source[i * factor % count];
}

// target[index] = 1: a memory fault for an index that is far from every allocation.
KERNEL void write_at(GLOBAL int* target, long index) { target[index] = 1; }

// Ends its queue.
KERNEL void trap(GLOBAL int* target) {
  target[0] = 1;
  __builtin_trap();
}
