// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "floor.h"

#include <stdatomic.h>
#include <string.h>

enum {
  // Slots of each ring.
  PACKETS = 16384,
  // Maximum bytes of kernel arguments of a dispatch.
  KERNARGS = 1024,
  RECORDS = 1024,
  // Bytes of kernel arguments of a replayed dispatch.
  REPLAYED_BINDINGS = 2,
};

// A kernel dispatch packet (HSA System Architecture 2.9.6); other packets have the header in the same place.
typedef struct packet_t {
  _Atomic uint16_t header;
  uint16_t setup;
  uint16_t workgroup_size[3];
  uint16_t reserved0;
  uint32_t grid_size[3];
  uint32_t private_segment_size;
  uint32_t group_segment_size;
  uint64_t kernel_object;
  void* kernarg_address;
  uint64_t reserved1;
  uint64_t completion_signal;
} packet_t;

// Completion record of an epoch.
typedef struct record_t {
  uint64_t epoch;
  void* semaphore;
  uint64_t value;
} record_t;

static _Alignas(64) packet_t packets[PACKETS];
static _Alignas(64) packet_t recorded[PACKETS];
static _Alignas(64) uint8_t kernargs[RECORDS][KERNARGS];
static record_t records[RECORDS];
static uint64_t packet_index, record_index;
static _Atomic uint64_t doorbell;
static void* bindings_in_use[KERNARGS / sizeof(void*)];
static const uint64_t CONSTANTS = 2;

// Barrier bit, scopes and type are arbitrary constants here.
enum { DISPATCH_HEADER = 0x1502, BARRIER_HEADER = 0x1503 };

static packet_t* next_packet(void) { return &packets[packet_index++ % PACKETS]; }

static void write_kernargs(uint8_t* target, uint32_t bindings) {
  for (uint32_t i = 0; i < bindings; ++i) memcpy(target + i * sizeof(void*), &bindings_in_use[i], sizeof(void*));
  memcpy(target + bindings * sizeof(void*), &CONSTANTS, sizeof(CONSTANTS));
}

static void publish(packet_t* packet, uint16_t header) {
  atomic_store_explicit(&packet->header, header, memory_order_release);
}

// Writes the completion record, then rings the doorbell for all earlier packets.
static void finish(void) {
  record_t* record = &records[record_index % RECORDS];
  record->epoch = ++record_index;
  record->semaphore = &records;
  record->value = record_index;
  atomic_store_explicit(&doorbell, packet_index - 1, memory_order_release);
}

__attribute__((noinline)) void floor_barrier(void) {
  packet_t* packet = next_packet();
  memset((uint8_t*)packet + sizeof(packet->header), 0, sizeof(*packet) - sizeof(packet->header));
  packet->completion_signal = (uint64_t)&doorbell;
  publish(packet, BARRIER_HEADER);
  finish();
}

__attribute__((noinline)) void floor_dispatch(uint32_t bindings) {
  uint8_t* arguments = kernargs[record_index % RECORDS];
  write_kernargs(arguments, bindings);
  packet_t* packet = next_packet();
  packet->setup = 3;
  packet->workgroup_size[0] = 64;
  packet->workgroup_size[1] = packet->workgroup_size[2] = 1;
  packet->reserved0 = 0;
  packet->grid_size[0] = 64;
  packet->grid_size[1] = packet->grid_size[2] = 1;
  packet->private_segment_size = packet->group_segment_size = 0;
  packet->kernel_object = (uint64_t)&CONSTANTS;
  packet->kernarg_address = arguments;
  packet->reserved1 = 0;
  packet->completion_signal = (uint64_t)&doorbell;
  publish(packet, DISPATCH_HEADER);
  finish();
}

__attribute__((noinline)) void floor_replay(uint32_t dispatches, bool has_table) {
  for (uint32_t i = 0; i < dispatches; ++i) {
    if (has_table) write_kernargs(kernargs[i % RECORDS], REPLAYED_BINDINGS);
    packet_t* packet = next_packet();
    const size_t header = sizeof(packet->header);
    memcpy((uint8_t*)packet + header, (const uint8_t*)&recorded[i] + header, sizeof(*packet) - header);
    publish(packet, DISPATCH_HEADER);
  }
  finish();
}
