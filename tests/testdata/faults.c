// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels that go wrong, for tests/faults.rs and fault.mlir. Build, for gfx1100, gfx90a and gfx942:
//   clang-22 -x c -std=c23 -nogpulib -target amdgcn-amd-amdhsa -mcpu=gfx1100 -O2 -mcode-object-version=5 -fno-ident \
//     -fuse-ld=lld -Wl,--discard-all faults.c -o faults.gfx1100.co

#define GLOBAL __attribute__((address_space(1)))
#define KERNEL __attribute__((amdgpu_kernel, visibility("protected")))

// target[0] = source[index]: out of bounds for whatever index says.
KERNEL void read_at(GLOBAL int* target, const GLOBAL int* source, long index) { target[0] = source[index]; }

// target[index] = 1.
KERNEL void write_at(GLOBAL int* target, long index) { target[index] = 1; }

// An instruction that no software GPU executes: a trap.
KERNEL void trap(GLOBAL int* target) {
  target[0] = 1;
  __builtin_trap();
}
