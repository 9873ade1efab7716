// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A bare code object with global variables, dynamic relocations and no required workgroup size.
__attribute__((visibility("default"))) int counters[4] = {1, 2, 3, 4};
__attribute__((visibility("default"))) int *cursor = &counters[2];
__attribute__((visibility("default"))) unsigned char scratch[65536];
__attribute__((visibility("default"))) extern int provided_by_loader;
static int hidden_value = 7;
__attribute__((visibility("default"))) int *hidden_cursor = &hidden_value;
__attribute__((visibility("default"))) int *external_cursor = &provided_by_loader;

__attribute__((amdgpu_kernel, visibility("protected"))) void store(int *target, int value, unsigned long count) {
  target[count] = value + *cursor + scratch[count];
}
