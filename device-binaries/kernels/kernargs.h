// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernel arguments of the device library: what the host writes into kernarg memory and the kernels read.
//
// `src/kernargs.rs` declares the same structs for the host. Both sides assert every offset, and a test of the crate
// compares the assertions below with the Rust layout and the structs' sizes with the metadata of each prebuilt code
// object.
//
// Addresses are device-visible virtual addresses, lengths and offsets are in bytes, all values are little-endian. A
// kernarg block is aligned to 16, the least that HSA allows (hsa.h,
// HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_ALIGNMENT) and the compiler assumes.

#ifndef AMDGPU_RS_DEVICE_BINARIES_KERNARGS_H_
#define AMDGPU_RS_DEVICE_BINARIES_KERNARGS_H_

#include <stddef.h>

typedef unsigned int amdgpu_rs_u32;
typedef unsigned long long amdgpu_rs_u64;

// Arguments of `amdgpu_rs_fill`.
typedef struct {
  // Begin of the first tile, aligned to 16; the tiles end where the range's last whole block does.
  amdgpu_rs_u64 target;
  // Tiles that hold the range's whole blocks; 0 if there are none.
  amdgpu_rs_u32 tile_count;
  // Waves in the grid: its work-items / the wavefront size; at least 1.
  amdgpu_rs_u32 wave_count;
  // Offset of the first whole block in the first tile; a multiple of 16.
  amdgpu_rs_u32 first;
  // Bytes to write outside of whole blocks: bit i stands for byte i of the block at `head`, bit 16 + i for byte i of
  // the one at `tail`.
  amdgpu_rs_u32 edges;
  // What to write: the byte at address A becomes byte A % 16 of these 16.
  amdgpu_rs_u64 pattern[2];
  // The block in which the range begins, and the one in which it ends; aligned to 16.
  amdgpu_rs_u64 head;
  amdgpu_rs_u64 tail;
} amdgpu_rs_fill_args_t;

static_assert(sizeof(amdgpu_rs_fill_args_t) == 56);
static_assert(offsetof(amdgpu_rs_fill_args_t, target) == 0);
static_assert(offsetof(amdgpu_rs_fill_args_t, tile_count) == 8);
static_assert(offsetof(amdgpu_rs_fill_args_t, wave_count) == 12);
static_assert(offsetof(amdgpu_rs_fill_args_t, first) == 16);
static_assert(offsetof(amdgpu_rs_fill_args_t, edges) == 20);
static_assert(offsetof(amdgpu_rs_fill_args_t, pattern) == 24);
static_assert(offsetof(amdgpu_rs_fill_args_t, head) == 40);
static_assert(offsetof(amdgpu_rs_fill_args_t, tail) == 48);

// Arguments of `amdgpu_rs_copy`.
typedef struct {
  // Where the first tile begins in the source; any alignment. With no tiles: the first byte to read.
  amdgpu_rs_u64 source;
  // Where the first tile begins in the target; aligned to 16, the last tile ends at the first multiple of 16 behind the
  // range. With no tiles: the first byte to write. The target range does not overlap the source range.
  amdgpu_rs_u64 target;
  // Tiles that hold the range; 0 for one below 16 bytes.
  amdgpu_rs_u32 tile_count;
  // Waves in the grid: its work-items / the wavefront size; at least 1.
  amdgpu_rs_u32 wave_count;
  // Offset of the range's first byte in the first tile.
  amdgpu_rs_u32 first;
  // Offset of the range's last 16 bytes in the last tile; the tile's length - 16, or up to 15 less.
  amdgpu_rs_u32 last;
  // With no tiles: bytes to copy, up to 15; else 0.
  amdgpu_rs_u32 byte_count;
  // Zero.
  amdgpu_rs_u32 reserved;
} amdgpu_rs_copy_args_t;

static_assert(sizeof(amdgpu_rs_copy_args_t) == 40);
static_assert(offsetof(amdgpu_rs_copy_args_t, source) == 0);
static_assert(offsetof(amdgpu_rs_copy_args_t, target) == 8);
static_assert(offsetof(amdgpu_rs_copy_args_t, tile_count) == 16);
static_assert(offsetof(amdgpu_rs_copy_args_t, wave_count) == 20);
static_assert(offsetof(amdgpu_rs_copy_args_t, first) == 24);
static_assert(offsetof(amdgpu_rs_copy_args_t, last) == 28);
static_assert(offsetof(amdgpu_rs_copy_args_t, byte_count) == 32);
static_assert(offsetof(amdgpu_rs_copy_args_t, reserved) == 36);

// Arguments of `amdgpu_rs_patch_dispatch`.
typedef struct {
  // Three u32 workgroup counts (x, y, z); aligned to 4.
  amdgpu_rs_u64 workgroup_count;
  // AQL kernel dispatch packet to complete and publish; aligned to 64. Its header is INVALID until this kernel stores
  // it.
  amdgpu_rs_u64 packet;
  // Implicit arguments of that dispatch (the hidden kernargs of code object v5), aligned to 8, or 0 where its kernel
  // has none.
  amdgpu_rs_u64 implicit_args;
  // First 32 bits of the packet as they are to be published (header in the low half, setup in the high half): in the
  // low word those of the dispatch, in the high word those of the barrier-AND packet that takes its place if a
  // workgroup count is zero.
  amdgpu_rs_u64 header_setup;
  // Work-items per workgroup (x, y, z) of that dispatch.
  amdgpu_rs_u32 workgroup_size[3];
  // Zero.
  amdgpu_rs_u32 reserved;
} amdgpu_rs_patch_dispatch_args_t;

static_assert(sizeof(amdgpu_rs_patch_dispatch_args_t) == 48);
static_assert(offsetof(amdgpu_rs_patch_dispatch_args_t, workgroup_count) == 0);
static_assert(offsetof(amdgpu_rs_patch_dispatch_args_t, packet) == 8);
static_assert(offsetof(amdgpu_rs_patch_dispatch_args_t, implicit_args) == 16);
static_assert(offsetof(amdgpu_rs_patch_dispatch_args_t, header_setup) == 24);
static_assert(offsetof(amdgpu_rs_patch_dispatch_args_t, workgroup_size) == 32);
static_assert(offsetof(amdgpu_rs_patch_dispatch_args_t, reserved) == 44);

// An address in kernel arguments that `amdgpu_rs_bind` writes.
typedef struct {
  // Added to the address in the table.
  amdgpu_rs_u64 offset;
  // Where it goes, from `target` on; a multiple of 8.
  amdgpu_rs_u32 target;
  // Which of the table.
  amdgpu_rs_u32 index;
} amdgpu_rs_fixup_t;
static_assert(sizeof(amdgpu_rs_fixup_t) == 16);
static_assert(offsetof(amdgpu_rs_fixup_t, offset) == 0);
static_assert(offsetof(amdgpu_rs_fixup_t, target) == 8);
static_assert(offsetof(amdgpu_rs_fixup_t, index) == 12);

// Arguments of `amdgpu_rs_bind`.
typedef struct {
  // Kernel arguments of a recording's dispatches; aligned to 8.
  amdgpu_rs_u64 target;
  // The addresses to write there, `count` amdgpu_rs_fixup_t; aligned to 16.
  amdgpu_rs_u64 fixups;
  // The addresses of an execution's bindings, u64 each; aligned to 8.
  amdgpu_rs_u64 table;
  amdgpu_rs_u32 count;
  // Zero.
  amdgpu_rs_u32 reserved;
} amdgpu_rs_bind_args_t;
static_assert(sizeof(amdgpu_rs_bind_args_t) == 32);
static_assert(offsetof(amdgpu_rs_bind_args_t, target) == 0);
static_assert(offsetof(amdgpu_rs_bind_args_t, fixups) == 8);
static_assert(offsetof(amdgpu_rs_bind_args_t, table) == 16);
static_assert(offsetof(amdgpu_rs_bind_args_t, count) == 24);
static_assert(offsetof(amdgpu_rs_bind_args_t, reserved) == 28);

#endif  // AMDGPU_RS_DEVICE_BINARIES_KERNARGS_H_
