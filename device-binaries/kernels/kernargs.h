// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernel arguments of the device library: what the host writes into kernarg memory and the kernels read.
//
// `src/kernargs.rs` declares the same structs for the host. Both sides assert every offset, and a test of the crate compares the
// assertions below with the Rust layout and the structs' sizes with the metadata of each prebuilt code object.
//
// Addresses are device-visible virtual addresses, lengths are in bytes, all values are little-endian. A kernarg block is aligned to 8.

#ifndef AMDGPU_RS_DEVICE_BINARIES_KERNARGS_H_
#define AMDGPU_RS_DEVICE_BINARIES_KERNARGS_H_

#include <stddef.h>

typedef unsigned int amdgpu_rs_u32;
typedef unsigned long long amdgpu_rs_u64;

// Arguments of `amdgpu_rs_fill`.
typedef struct {
  // First byte to write; any alignment.
  amdgpu_rs_u64 target;
  // Bytes to write; any, 0 writes nothing.
  amdgpu_rs_u64 length;
  // What to write: the byte at address A becomes byte A % 16 of these 16.
  amdgpu_rs_u64 pattern[2];
  // Waves in the grid: its work-items / the wavefront size. At least 4, or one for each tile and piece (`kernels.c`); at least 1.
  amdgpu_rs_u32 wave_count;
  // Zero.
  amdgpu_rs_u32 reserved;
} amdgpu_rs_fill_args_t;

static_assert(sizeof(amdgpu_rs_fill_args_t) == 40);
static_assert(offsetof(amdgpu_rs_fill_args_t, target) == 0);
static_assert(offsetof(amdgpu_rs_fill_args_t, length) == 8);
static_assert(offsetof(amdgpu_rs_fill_args_t, pattern) == 16);
static_assert(offsetof(amdgpu_rs_fill_args_t, wave_count) == 32);
static_assert(offsetof(amdgpu_rs_fill_args_t, reserved) == 36);

// Arguments of `amdgpu_rs_copy`.
typedef struct {
  // First byte to read; any alignment, also relative to the target's.
  amdgpu_rs_u64 source;
  // First byte to write; any alignment. [target, target + length) does not overlap [source, source + length).
  amdgpu_rs_u64 target;
  // Bytes to copy; any, 0 copies nothing.
  amdgpu_rs_u64 length;
  // Waves in the grid: its work-items / the wavefront size. At least 4, or one for each tile and piece (`kernels.c`); at least 1.
  amdgpu_rs_u32 wave_count;
  // Zero.
  amdgpu_rs_u32 reserved;
} amdgpu_rs_copy_args_t;

static_assert(sizeof(amdgpu_rs_copy_args_t) == 32);
static_assert(offsetof(amdgpu_rs_copy_args_t, source) == 0);
static_assert(offsetof(amdgpu_rs_copy_args_t, target) == 8);
static_assert(offsetof(amdgpu_rs_copy_args_t, length) == 16);
static_assert(offsetof(amdgpu_rs_copy_args_t, wave_count) == 24);
static_assert(offsetof(amdgpu_rs_copy_args_t, reserved) == 28);

// Arguments of `amdgpu_rs_patch_dispatch`.
typedef struct {
  // Three u32 workgroup counts (x, y, z); aligned to 4.
  amdgpu_rs_u64 workgroup_count;
  // AQL kernel dispatch packet to complete and publish; aligned to 64. Its header is INVALID until this kernel stores it.
  amdgpu_rs_u64 packet;
  // Implicit arguments of that dispatch (the hidden kernargs of code object v5), aligned to 8, or 0 where its kernel has none.
  amdgpu_rs_u64 implicit_args;
  // First 32 bits of the packet as they are to be published: header in the low half, setup in the high half.
  amdgpu_rs_u32 header_setup;
  // Work-items per workgroup (x, y, z) of that dispatch.
  amdgpu_rs_u32 workgroup_size[3];
} amdgpu_rs_patch_dispatch_args_t;

static_assert(sizeof(amdgpu_rs_patch_dispatch_args_t) == 40);
static_assert(offsetof(amdgpu_rs_patch_dispatch_args_t, workgroup_count) == 0);
static_assert(offsetof(amdgpu_rs_patch_dispatch_args_t, packet) == 8);
static_assert(offsetof(amdgpu_rs_patch_dispatch_args_t, implicit_args) == 16);
static_assert(offsetof(amdgpu_rs_patch_dispatch_args_t, header_setup) == 24);
static_assert(offsetof(amdgpu_rs_patch_dispatch_args_t, workgroup_size) == 28);

#endif  // AMDGPU_RS_DEVICE_BINARIES_KERNARGS_H_
