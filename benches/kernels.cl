// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels that the benchmark dispatches: `bindings_<n>` takes n pointers and eight bytes of constants. The sim
// takes their packets without running them. `cargo xtask bench` compiles this file for the GPU that the sim plays. In
// OpenCL's language a kernel has a size of workgroups of its own: IREE's C driver takes no other for PM4 command
// buffers.

#define POINTER global float*
#define POINTERS_4(p) POINTER p##0, POINTER p##1, POINTER p##2, POINTER p##3
#define POINTERS_16(p) POINTERS_4(p##0), POINTERS_4(p##1), POINTERS_4(p##2), POINTERS_4(p##3)
#define POINTERS_64(p) POINTERS_16(p##0), POINTERS_16(p##1), POINTERS_16(p##2), POINTERS_16(p##3)
#define CONSTANTS unsigned a, unsigned count
#define KERNEL kernel __attribute__((visibility("protected"), reqd_work_group_size(64, 1, 1)))

KERNEL void bindings_0(CONSTANTS) {}
KERNEL void bindings_2(POINTER x, POINTER y, CONSTANTS) {}
KERNEL void bindings_4(POINTERS_4(p), CONSTANTS) {}
KERNEL void bindings_16(POINTERS_16(p), CONSTANTS) {}
KERNEL void bindings_64(POINTERS_64(p), CONSTANTS) {}
