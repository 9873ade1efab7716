// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel that tells what it was launched with, for tests/indirect_arguments.rs. Build:
//   clang-22 -x c -std=c23 -nogpulib -target amdgcn-amd-amdhsa -mcpu=gfx1100 -O2 -mcode-object-version=5 -fno-ident \
//     -fuse-ld=lld arguments.c -o arguments.gfx1100.co && llvm-strip-22 arguments.gfx1100.co

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
