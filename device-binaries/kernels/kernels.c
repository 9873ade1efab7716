// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The device library: the kernels that the driver itself dispatches. `cargo xtask device-binaries --rebuild` compiles this file once
// for each code-object target, without a device library or a runtime. No kernel uses LDS, scratch or hidden arguments.
//
// Grids are one-dimensional, `wave_count` workgroups of one wavefront each (32 work-items on gfx10 and later, 64 before), so that a
// workgroup's id is its wave's number and all loop control stays in scalar registers. Any number of waves gives the same result.
//
// Both transfer kernels cut the target range at its 16-byte block boundaries:
//   edges  the blocks that the range begins and ends in, where it covers only a part of them: written in bytes by wave 0
//   body   whole blocks, in tiles of BLOCKS_PER_ITEM blocks per work-item; tile t belongs to wave t % wave_count. In a tile,
//          consecutive work-items access consecutive blocks, so that each instruction covers one contiguous range of the target.
// Only bytes of [target, target + length) are written and only bytes of [source, source + length) are read.
//
// Memory order: plain accesses. What a transfer reads is made visible by its packet's acquire fence, what it writes by its release
// fence.

#include "kernargs.h"

typedef unsigned char u8;
typedef amdgpu_rs_u32 u32;
typedef amdgpu_rs_u64 u64;

// One block; as a target it is aligned, as a source it may not be (amdhsa enables unaligned vector access to global memory).
typedef u32 block_t __attribute__((ext_vector_type(4)));
typedef block_t unaligned_block_t __attribute__((aligned(1)));

#define GLOBAL __attribute__((address_space(1)))
#define KERNEL(max_work_items)                                  \
  [[clang::amdgpu_kernel, gnu::visibility("protected"), gnu::used]] \
  __attribute__((amdgpu_flat_work_group_size(1, max_work_items)))

#define WAVE_SIZE __builtin_amdgcn_wavefrontsize()
#define BLOCKS_PER_ITEM 4
#define TILE_LENGTH (WAVE_SIZE * BLOCKS_PER_ITEM * sizeof(block_t))

// The body of a target range.
typedef struct {
  u64 address;
  u64 length;
} body_t;

static inline body_t body_of(u64 target, u64 length) {
  const u64 begin = (target + 15) & ~15ull;
  const u64 end = (target + length) & ~15ull;
  return (body_t){.address = begin, .length = end > begin ? end - begin : 0};
}

// The byte of an edge that belongs to this work-item: its offset from `target`, at or above `length` if it has none. Work-items 0-15
// have the bytes of the block that the range begins in, 16-31 those of the block that it ends in. Bytes of these that the body also
// covers, or both edges, are written twice, with the same value.
static inline u64 edge_offset(u64 target, u64 length, u32 item) {
  const u64 block = (item & 16 ? target + length : target) & ~15ull;
  return item < 32 ? block + (item & 15) - target : length;
}

// Writes `length` bytes of a pattern from `target` on.
KERNEL(64) void amdgpu_rs_fill(const amdgpu_rs_fill_args_t args) {
  const u32 wave = __builtin_amdgcn_workgroup_id_x();
  const u32 item = __builtin_amdgcn_workitem_id_x();

  if (wave == 0 && ((args.target | args.length) & 15) != 0) {
    const u64 offset = edge_offset(args.target, args.length, item);
    if (offset < args.length) {
      const u64 half = item & 8 ? args.pattern[1] : args.pattern[0];
      ((GLOBAL u8*)args.target)[offset] = (u8)(half >> (8 * (item & 7)));
    }
  }

  const block_t pattern = {(u32)args.pattern[0], (u32)(args.pattern[0] >> 32), (u32)args.pattern[1], (u32)(args.pattern[1] >> 32)};
  const body_t body = body_of(args.target, args.length);
  const u32 tile_count = (u32)(body.length / TILE_LENGTH);
  u32 tile = wave;
  for (; tile < tile_count; tile += args.wave_count) {
    GLOBAL block_t* target = (GLOBAL block_t*)(body.address + tile * (u64)TILE_LENGTH);
#pragma unroll
    for (u32 i = 0; i < BLOCKS_PER_ITEM; ++i) target[i * WAVE_SIZE + item] = pattern;
  }
  if (tile == tile_count) {
    GLOBAL block_t* target = (GLOBAL block_t*)(body.address + tile * (u64)TILE_LENGTH);
    const u32 block_count = (u32)(body.length % TILE_LENGTH) / sizeof(block_t);
#pragma unroll
    for (u32 i = 0; i < BLOCKS_PER_ITEM; ++i) {
      if (i * WAVE_SIZE + item < block_count) target[i * WAVE_SIZE + item] = pattern;
    }
  }
}

// Copies `length` bytes from `source` to `target`.
KERNEL(64) void amdgpu_rs_copy(const amdgpu_rs_copy_args_t args) {
  const u32 wave = __builtin_amdgcn_workgroup_id_x();
  const u32 item = __builtin_amdgcn_workitem_id_x();

  if (wave == 0 && ((args.target | args.length) & 15) != 0) {
    const u64 offset = edge_offset(args.target, args.length, item);
    if (offset < args.length) ((GLOBAL u8*)args.target)[offset] = ((const GLOBAL u8*)args.source)[offset];
  }

  const body_t body = body_of(args.target, args.length);
  const u64 source_body = args.source + (body.address - args.target);
  const u32 tile_count = (u32)(body.length / TILE_LENGTH);
  u32 tile = wave;
  for (; tile < tile_count; tile += args.wave_count) {
    const GLOBAL unaligned_block_t* source = (const GLOBAL unaligned_block_t*)(source_body + tile * (u64)TILE_LENGTH);
    GLOBAL block_t* target = (GLOBAL block_t*)(body.address + tile * (u64)TILE_LENGTH);
    block_t blocks[BLOCKS_PER_ITEM];
#pragma unroll
    for (u32 i = 0; i < BLOCKS_PER_ITEM; ++i) blocks[i] = source[i * WAVE_SIZE + item];
#pragma unroll
    for (u32 i = 0; i < BLOCKS_PER_ITEM; ++i) target[i * WAVE_SIZE + item] = blocks[i];
  }
  const u32 block_count = (u32)(body.length % TILE_LENGTH) / sizeof(block_t);
  if (tile == tile_count && block_count != 0) {
    const GLOBAL u8* source = (const GLOBAL u8*)(source_body + tile * (u64)TILE_LENGTH);
    GLOBAL block_t* target = (GLOBAL block_t*)(body.address + tile * (u64)TILE_LENGTH);
    // Work-items without a block load the last one: loads under a condition would be waited for one by one.
    block_t blocks[BLOCKS_PER_ITEM];
#pragma unroll
    for (u32 i = 0; i < BLOCKS_PER_ITEM; ++i) {
      const u32 block = i * WAVE_SIZE + item < block_count ? i * WAVE_SIZE + item : block_count - 1;
      blocks[i] = *(const GLOBAL unaligned_block_t*)(source + block * (u32)sizeof(block_t));
    }
#pragma unroll
    for (u32 i = 0; i < BLOCKS_PER_ITEM; ++i) {
      if (i * WAVE_SIZE + item < block_count) target[i * WAVE_SIZE + item] = blocks[i];
    }
  }
}

// The fields of an AQL kernel dispatch packet (HSA System Architecture 1.2, section 2.9.6) that are written here. A barrier-AND packet
// (2.9.8) has its header and completion signal in the same places, and its five dependent signals from byte 8 on.
typedef struct {
  u32 header_setup;
  u32 workgroup_size_xy;
  u32 workgroup_size_z;
  u32 grid_size[3];
  u32 unchanged[8];
  u64 completion_signal;
} dispatch_packet_t;
static_assert(sizeof(dispatch_packet_t) == 64);

#define PACKET_TYPE_MASK 0xffu
#define PACKET_TYPE_BARRIER_AND 3u

// Completes a dispatch whose workgroup counts come from memory, then publishes it to the packet processor.
//
// One work-item. The grid becomes workgroup count * workgroup size in each dimension (a product above 2^32 - 1 is the caller's error);
// with implicit arguments their block counts are set too. A count of zero would be a malformed dispatch: the packet is published
// as a barrier-AND packet without dependencies instead, with the same barrier bit, fences and completion signal.
//
// Memory order: the header is stored last, with release at system scope, so that the packet processor that sees it sees the rest.
KERNEL(1) void amdgpu_rs_patch_dispatch(const amdgpu_rs_patch_dispatch_args_t args) {
  const GLOBAL u32* workgroup_count = (const GLOBAL u32*)args.workgroup_count;
  GLOBAL dispatch_packet_t* packet = (GLOBAL dispatch_packet_t*)args.packet;
  GLOBAL u32* block_count = (GLOBAL u32*)args.implicit_args;

  const u32 count[3] = {workgroup_count[0], workgroup_count[1], workgroup_count[2]};
  u32 header_setup = args.header_setup;
  if (count[0] == 0 || count[1] == 0 || count[2] == 0) {
    header_setup = (header_setup & 0xffffu & ~PACKET_TYPE_MASK) | PACKET_TYPE_BARRIER_AND;
    GLOBAL u32* words = (GLOBAL u32*)args.packet;
#pragma unroll
    for (u32 i = 1; i < offsetof(dispatch_packet_t, completion_signal) / sizeof(u32); ++i) words[i] = 0;
  } else {
#pragma unroll
    for (u32 i = 0; i < 3; ++i) packet->grid_size[i] = count[i] * args.workgroup_size[i];
    if (block_count) {
#pragma unroll
      for (u32 i = 0; i < 3; ++i) block_count[i] = count[i];
    }
  }
  __scoped_atomic_store_n(&packet->header_setup, header_setup, __ATOMIC_RELEASE, __MEMORY_SCOPE_SYSTEM);
}
