// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The first six words of the implicit arguments, in code object version 4.
//
// flags: -mcode-object-version=4

#define GLOBAL __attribute__((address_space(1)))
#define CONSTANT __attribute__((address_space(4)))
#define KERNEL __attribute__((amdgpu_kernel, visibility("protected")))

KERNEL void implicit_words(GLOBAL unsigned* target) {
  const CONSTANT unsigned* implicit = (const CONSTANT unsigned*)__builtin_amdgcn_implicitarg_ptr();
  for (int i = 0; i < 6; ++i) target[i] = implicit[i];
}
