// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// printf and assert of HIP, which ROCm's device library turns into calls of the host.

#define __device__ __attribute__((device))
#define __global__ __attribute__((global))

// What ROCm's device library asks for.
extern "C" __device__ __attribute__((used)) const int __oclc_ABI_version = 500;
extern "C" __device__ int printf(const char *, ...);

extern "C" __global__ void print(float x, int wrong) {
  unsigned t = __builtin_amdgcn_workitem_id_x();
  if (t % 32 == 1) printf("%s %d: %.2f, %llu\n", "item", t - 5, x, 1ull << 40);
  if ((int)t == wrong) printf("a message that is longer than the fifty-six bytes which one call of the host can take\n");
}
