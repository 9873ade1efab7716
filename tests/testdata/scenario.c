// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel and a variable, for tests/hsa_failures.rs. Build:
//   clang-22 -x c -std=c23 -nogpulib -target amdgcn-amd-amdhsa -mcpu=gfx1100 -O2 -mcode-object-version=5 -fno-ident \
//     -fuse-ld=lld -Wl,--discard-all scenario.c -o scenario.gfx1100.co

#define GLOBAL __attribute__((address_space(1)))
#define KERNEL __attribute__((amdgpu_kernel, visibility("protected")))

GLOBAL int summand __attribute__((visibility("protected"))) = 0;

// target[0] = source[0] + summand + constant.
KERNEL void add(GLOBAL int* target, const GLOBAL int* source, int constant) {
  target[0] = source[0] + summand + constant;
}
