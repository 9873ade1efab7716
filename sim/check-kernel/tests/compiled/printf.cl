// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// printf of OpenCL, which writes to a buffer. ROCm's device library allocates in it.

int printf(__constant const char *, ...) __attribute__((format(printf, 1, 2)));

// A symbol that the device library needs, and a call that links the library before the compiler calls it.
__constant int __oclc_ABI_version __attribute__((used)) = 500;
global char *__printf_alloc(uint);
__attribute__((used)) global char *keep(void) { return __printf_alloc(0); }

kernel void print(float x) {
  uint t = __builtin_amdgcn_workitem_id_x();
  if (t < 2) printf("item %u: %d, %.1f %s\n", t, -(int)t, x, "text");
}
