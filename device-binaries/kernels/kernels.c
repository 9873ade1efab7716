// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The device library: the kernels that the driver itself dispatches. `cargo xtask device-binaries --rebuild` compiles this file once
// for each code-object target, without a device library or a runtime. No kernel uses LDS, scratch or hidden arguments.
//
// The transfer kernels' grids are one-dimensional, `wave_count` workgroups of one wavefront each (32 work-items on gfx10 and later, 64
// before), so that a workgroup's id is its wave's number and all loop control stays in scalar registers.
//
// Both transfer kernels cut the target range at its 16-byte block boundaries:
//   edges  if the range begins or ends inside of a block: its first and its last 16 bytes, or all of it if it is shorter; written in
//          bytes by wave 0
//   body   the whole blocks: tiles of BLOCKS_PER_ITEM blocks per work-item, then the rest in up to BLOCKS_PER_ITEM pieces of one block
//          per work-item. Tiles and pieces, in this order, go to waves 0 to wave_count - 1 and around. In each, consecutive
//          work-items access consecutive blocks, so that each instruction covers one contiguous range of the target.
// A byte that belongs to both edges, or to an edge and the body, is written twice, with the same value.
//
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

// The body of a target range. No wave has more than one piece of the rest: `wave_count` is no less than BLOCKS_PER_ITEM, or than the
// number of tiles and pieces.
typedef struct {
  u64 address;
  u32 tile_count;
  // Blocks behind the tiles, and their address.
  u32 rest_count;
  u64 rest;
} body_t;

static inline body_t body_of(u64 target, u64 length) {
  const u64 begin = (target + 15) & ~15ull;
  const u64 end = (target + length) & ~15ull;
  const u64 body_length = end > begin ? end - begin : 0;
  const u32 tile_count = (u32)(body_length / TILE_LENGTH);
  return (body_t){
      .address = begin,
      .tile_count = tile_count,
      .rest_count = (u32)(body_length % TILE_LENGTH) / (u32)sizeof(block_t),
      .rest = begin + tile_count * (u64)TILE_LENGTH,
  };
}

// Whether this wave writes the edges, and whether there are any.
static inline bool has_edges(u32 wave, u64 target, u64 length) { return wave == 0 && ((target | length) & 15) != 0; }

// Length of each edge.
static inline u32 edge_length(u64 length) { return length < 16 ? (u32)length : 16; }

// Writes `length` bytes of a pattern from `target` on.
KERNEL(64) void amdgpu_rs_fill(const amdgpu_rs_fill_args_t args) {
  const u32 wave = __builtin_amdgcn_workgroup_id_x();
  const u32 item = __builtin_amdgcn_workitem_id_x();

  if (has_edges(wave, args.target, args.length)) {
    // Each of 16 work-items has one byte of the pattern, which comes once in 16 bytes of either edge.
    const u8 byte = (u8)((item & 8 ? args.pattern[1] : args.pattern[0]) >> (8 * (item & 7)));
    const u32 length = edge_length(args.length);
    const u64 last = args.target + args.length - length;
    const u32 in_first = (item - (u32)args.target) & 15;
    const u32 in_last = (item - (u32)last) & 15;
    if (item < 16 && in_first < length) ((GLOBAL u8*)args.target)[in_first] = byte;
    if (item < 16 && in_last < length) ((GLOBAL u8*)last)[in_last] = byte;
  }

  const block_t pattern = {(u32)args.pattern[0], (u32)(args.pattern[0] >> 32), (u32)args.pattern[1], (u32)(args.pattern[1] >> 32)};
  const body_t body = body_of(args.target, args.length);
  u32 unit = wave;
  for (; unit < body.tile_count; unit += args.wave_count) {
    GLOBAL block_t* target = (GLOBAL block_t*)(body.address + unit * (u64)TILE_LENGTH);
#pragma unroll
    for (u32 i = 0; i < BLOCKS_PER_ITEM; ++i) target[i * WAVE_SIZE + item] = pattern;
  }
  const u32 block = (unit - body.tile_count) * WAVE_SIZE + item;
  if (block < body.rest_count) *(GLOBAL block_t*)((GLOBAL u8*)body.rest + block * (u32)sizeof(block_t)) = pattern;
}

// Copies `length` bytes from `source` to `target`.
KERNEL(64) void amdgpu_rs_copy(const amdgpu_rs_copy_args_t args) {
  const u32 wave = __builtin_amdgcn_workgroup_id_x();
  const u32 item = __builtin_amdgcn_workitem_id_x();

  if (has_edges(wave, args.target, args.length)) {
    const u32 length = edge_length(args.length);
    const u64 last = args.length - length;
    if (item < length) {
      const u8 in_first = ((const GLOBAL u8*)args.source)[item];
      const u8 in_last = ((const GLOBAL u8*)(args.source + last))[item];
      ((GLOBAL u8*)args.target)[item] = in_first;
      ((GLOBAL u8*)(args.target + last))[item] = in_last;
    }
  }

  const body_t body = body_of(args.target, args.length);
  const u64 to_source = args.source - args.target;
  u32 unit = wave;
  for (; unit < body.tile_count; unit += args.wave_count) {
    const u64 address = body.address + unit * (u64)TILE_LENGTH;
    const GLOBAL unaligned_block_t* source = (const GLOBAL unaligned_block_t*)(address + to_source);
    GLOBAL block_t* target = (GLOBAL block_t*)address;
    block_t blocks[BLOCKS_PER_ITEM];
#pragma unroll
    for (u32 i = 0; i < BLOCKS_PER_ITEM; ++i) blocks[i] = source[i * WAVE_SIZE + item];
#pragma unroll
    for (u32 i = 0; i < BLOCKS_PER_ITEM; ++i) target[i * WAVE_SIZE + item] = blocks[i];
  }
  const u32 block = (unit - body.tile_count) * WAVE_SIZE + item;
  if (block < body.rest_count) {
    const u32 offset = block * (u32)sizeof(block_t);
    *(GLOBAL block_t*)((GLOBAL u8*)body.rest + offset) =
        *(const GLOBAL unaligned_block_t*)((const GLOBAL u8*)(body.rest + to_source) + offset);
  }
}

// An AQL kernel dispatch packet (HSA System Architecture 1.2, section 2.9.6), with its grid size in words 2 to 4 of `body`. A barrier-AND
// packet (2.9.8) has its header and completion signal in the same places, and in between reserved words and dependent signals.
#define PACKET_BODY_WORDS 13
#define GRID_SIZE_WORD 2
typedef struct {
  u32 header_setup;
  u32 body[PACKET_BODY_WORDS];
  u64 completion_signal;
} packet_t;
static_assert(sizeof(packet_t) == 64 && offsetof(packet_t, completion_signal) == 56);

#define PACKET_TYPE_MASK 0xffu
#define PACKET_TYPE_BARRIER_AND 3u

// Completes a dispatch whose workgroup counts come from memory, then publishes it to the packet processor.
//
// One workgroup of PACKET_BODY_WORDS work-items: one for each dimension (those behind do as the third does), or one for each word that
// becomes zero. The grid becomes workgroup count * workgroup size in each dimension (a product above 2^32 - 1 is the caller's error);
// with implicit arguments their block counts are set too. A count of zero would be a malformed dispatch: the packet is published
// as a barrier-AND packet without dependencies instead, with the same barrier bit, fences and completion signal.
//
// Memory order: the header is stored last, with release at system scope, so that the packet processor that sees it sees the rest.
KERNEL(PACKET_BODY_WORDS) void amdgpu_rs_patch_dispatch(const amdgpu_rs_patch_dispatch_args_t args) {
  const u32 item = __builtin_amdgcn_workitem_id_x();
  const u32 dimension = __builtin_elementwise_min(item, 2u);
  GLOBAL packet_t* packet = (GLOBAL packet_t*)args.packet;
  const u32 count = ((const GLOBAL u32*)args.workgroup_count)[dimension];
  u32 header_setup = args.header_setup;
  if (__builtin_amdgcn_ballot_w64(count == 0) == 0) {
    packet->body[GRID_SIZE_WORD + dimension] = count * args.workgroup_size[dimension];
    if (args.implicit_args) ((GLOBAL u32*)args.implicit_args)[dimension] = count;
  } else {
    header_setup = (header_setup & 0xffffu & ~PACKET_TYPE_MASK) | PACKET_TYPE_BARRIER_AND;
    packet->body[item] = 0;
  }
  // The stores of all work-items come before the one below, which releases them; they are one wave, so that this takes no instruction.
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
  if (item == 0) __scoped_atomic_store_n(&packet->header_setup, header_setup, __ATOMIC_RELEASE, __MEMORY_SCOPE_SYSTEM);
}
