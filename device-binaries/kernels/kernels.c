// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The device library: the kernels that the driver itself dispatches. `cargo xtask device-binaries --rebuild` compiles
// this file once for each code-object target, without a device library or a runtime. No kernel uses LDS, scratch or
// hidden arguments. `src/plan.rs` computes the arguments, so that what is the same for all waves is worked out once, by
// the host.
//
// The transfer kernels' grids are one-dimensional, `wave_count` workgroups of one wavefront each (32 work-items on
// gfx10 and later, 64 before), so that a workgroup's id is its wave's number and all loop control stays in scalar
// registers.
//
// A transfer is cut into tiles of BLOCKS_PER_ITEM blocks of 16 bytes per work-item; consecutive work-items access
// consecutive blocks, so that each instruction covers one contiguous range. Tiles go to waves 0 to wave_count - 1 and
// around. They are counted from the transfer's end, at a multiple of 16, so that targets are aligned and only the first
// tile may begin before the transfer does: its work-items that would write in front of the transfer write the
// transfer's first block instead, all of them with the same value.
//
// Only bytes of the target range are written and only bytes of the source range are read.
//
// Memory order: plain accesses. What a transfer reads is made visible by its packet's acquire fence, what it writes by
// its release fence.

#include "kernargs.h"

typedef unsigned char u8;
typedef amdgpu_rs_u32 u32;
typedef amdgpu_rs_u64 u64;

// One block. Unaligned ones are a single access too: amdhsa enables unaligned vector access to global memory.
typedef u32 block_t __attribute__((ext_vector_type(4)));
typedef block_t unaligned_block_t __attribute__((aligned(1)));

#define GLOBAL __attribute__((address_space(1)))
#define CONSTANT __attribute__((address_space(4)))
#define KERNEL(max_work_items)                                  \
  [[clang::amdgpu_kernel, gnu::visibility("protected"), gnu::used]] \
  __attribute__((amdgpu_flat_work_group_size(1, max_work_items)))

#define MIN(a, b) __builtin_elementwise_min(a, b)
#define MAX(a, b) __builtin_elementwise_max(a, b)

#define BLOCK_LENGTH 16u
#define BLOCKS_PER_ITEM 4
// Bytes of one block for each work-item, and of a tile.
#define PIECE_LENGTH (BLOCK_LENGTH * __builtin_amdgcn_wavefrontsize())
#define TILE_LENGTH (BLOCKS_PER_ITEM * PIECE_LENGTH)

// Hides where a value comes from: what follows from it is computed where it is used, instead of early into registers of
// its own.
#define OPAQUE(value) __asm__ volatile("" : "+v"(value))

// Writes a pattern over a range.
//
// The range's whole blocks are written in tiles. Wave 0 writes what lies before and behind these, the head and the
// tail, each in bytes of one block: work-item i writes byte i of either, which are the same byte of the pattern.
KERNEL(64) void amdgpu_rs_fill(const amdgpu_rs_fill_args_t args) {
  const u32 wave = __builtin_amdgcn_workgroup_id_x();
  const u32 item = __builtin_amdgcn_workitem_id_x();

  if (wave == 0 && item < BLOCK_LENGTH) {
    const u8 byte = (u8)((item < 8 ? args.pattern[0] : args.pattern[1]) >> (8 * (item % 8)));
    const u32 edges = args.edges >> item;
    if (edges & 1) ((GLOBAL u8*)args.head)[item] = byte;
    if (edges & 1u << 16) ((GLOBAL u8*)args.tail)[item] = byte;
  }

  const block_t pattern = {(u32)args.pattern[0], (u32)(args.pattern[0] >> 32), (u32)args.pattern[1], (u32)(args.pattern[1] >> 32)};
  u32 offset = item * BLOCK_LENGTH;
  u32 first = wave == 0 ? args.first : 0;
  for (u32 tile = wave; tile < args.tile_count; tile += args.wave_count) {
    GLOBAL u8* target = (GLOBAL u8*)(args.target + tile * (u64)TILE_LENGTH);
#pragma unroll
    for (u32 i = 0; i < BLOCKS_PER_ITEM; ++i) {
      OPAQUE(offset);
      *(GLOBAL block_t*)(target + MAX(offset + i * PIECE_LENGTH, first)) = pattern;
    }
    first = 0;
  }
}

// Copies a range.
//
// The first and the last block of a range of 16 bytes or more may be unaligned; where they overlap their neighbours,
// both write the same. Each work-item has two blocks in flight, which costs few registers: enough waves are resident to
// hide memory's latency.
KERNEL(64) void amdgpu_rs_copy(const amdgpu_rs_copy_args_t args) {
  const u32 wave = __builtin_amdgcn_workgroup_id_x();
  const u32 item = __builtin_amdgcn_workitem_id_x();

  if (item < args.byte_count) ((GLOBAL u8*)args.target)[item] = ((const GLOBAL u8*)args.source)[item];

  u32 offset = item * BLOCK_LENGTH;
  u32 first = wave == 0 ? args.first : 0;
  for (u32 tile = wave; tile < args.tile_count; tile += args.wave_count) {
    const GLOBAL u8* source = (const GLOBAL u8*)(args.source + tile * (u64)TILE_LENGTH);
    GLOBAL u8* target = (GLOBAL u8*)(args.target + tile * (u64)TILE_LENGTH);
    const u32 last = tile == args.tile_count - 1 ? args.last : TILE_LENGTH;
#pragma unroll
    for (u32 i = 0; i < BLOCKS_PER_ITEM; i += 2) {
      // What is short is in the last blocks: it takes one round trip to memory.
      if (i + 2 < BLOCKS_PER_ITEM && first >= (i + 2) * PIECE_LENGTH) continue;
      OPAQUE(offset);
      const u32 a = MAX(offset + i * PIECE_LENGTH, first);
      u32 b = MAX(offset + (i + 1) * PIECE_LENGTH, first);
      // Only the last piece reaches behind `last`, which is less than a block before the tile's last block.
      if (i + 2 == BLOCKS_PER_ITEM) b = MIN(b, last);
      const unaligned_block_t block_a = *(const GLOBAL unaligned_block_t*)(source + a);
      const unaligned_block_t block_b = *(const GLOBAL unaligned_block_t*)(source + b);
      *(GLOBAL unaligned_block_t*)(target + a) = block_a;
      *(GLOBAL unaligned_block_t*)(target + b) = block_b;
    }
    first = 0;
  }
}

// An AQL kernel dispatch packet (HSA System Architecture 1.2, section 2.9.6), with its grid size in words 2 to 4 of
// `body`. A barrier-AND packet (2.9.8) has its header and completion signal in the same places, and in between reserved
// words and dependent signals.
#define PACKET_BODY_WORDS 13
#define GRID_SIZE_WORD 2
typedef struct {
  u32 header_setup;
  u32 body[PACKET_BODY_WORDS];
  u64 completion_signal;
} packet_t;
static_assert(sizeof(packet_t) == 64 && offsetof(packet_t, completion_signal) == 56);

// Orders the accesses of all work-items before it ahead of those behind it. They are one wave, so that this takes no
// instruction.
static inline void order_wave(void) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

// Word `offset` / 4 from `address` on.
#define WORD(address, offset) (*(GLOBAL u32*)((GLOBAL u8*)(address) + (offset)))

// Completes a dispatch whose workgroup counts come from memory, then publishes it to the packet processor.
//
// One workgroup of PACKET_BODY_WORDS work-items: one for each dimension (those behind do as the third does), or one for
// each word that becomes zero. The grid becomes workgroup count * workgroup size in each dimension (a product above
// 2^32 - 1 is the caller's error); with implicit arguments their block counts are set too. A count of zero would be a
// malformed dispatch: the packet is published as a barrier-AND packet without dependencies instead, with the same
// barrier bit, fences and completion signal.
//
// Memory order: the header is stored last, with release at system scope, so that the packet processor that sees it sees
// the rest.
KERNEL(PACKET_BODY_WORDS) void amdgpu_rs_patch_dispatch(const amdgpu_rs_patch_dispatch_args_t args) {
  const u32 item = __builtin_amdgcn_workitem_id_x();
  GLOBAL packet_t* packet = (GLOBAL packet_t*)args.packet;
  u32 offset = MIN(item, 2u) * (u32)sizeof(u32);
  OPAQUE(offset);
  const u32 count = WORD(args.workgroup_count, offset);
  const CONSTANT u8* sizes =
      (const CONSTANT u8*)__builtin_amdgcn_kernarg_segment_ptr() + offsetof(amdgpu_rs_patch_dispatch_args_t, workgroup_size);
  WORD(&packet->body[GRID_SIZE_WORD], offset) = count * *(const CONSTANT u32*)(sizes + offset);
  if (args.implicit_args) {
    OPAQUE(offset);
    WORD(args.implicit_args, offset) = count;
  }
  u32 header_setup = (u32)args.header_setup;
  if (__builtin_amdgcn_ballot_w64(count == 0) != 0) {
    header_setup = (u32)(args.header_setup >> 32);
    order_wave();
    packet->body[item] = 0;
  }
  order_wave();
  if (item == 0) __scoped_atomic_store_n(&packet->header_setup, header_setup, __ATOMIC_RELEASE, __MEMORY_SCOPE_SYSTEM);
}

// Writes the addresses of an execution's bindings into the kernel arguments of a recording. Each work-item writes one.
//
// Memory order: plain accesses; the packet behind this one acquires what this one's release fence has made visible.
KERNEL(64) void amdgpu_rs_bind(const amdgpu_rs_bind_args_t args) {
  const u32 item = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
  if (item >= args.count) return;
  const GLOBAL amdgpu_rs_fixup_t* fixup = (const GLOBAL amdgpu_rs_fixup_t*)args.fixups + item;
  const u64 address = ((const GLOBAL u64*)args.table)[fixup->index] + fixup->offset;
  *(GLOBAL u64*)((GLOBAL u8*)args.target + fixup->target) = address;
}
