// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "hsa_floor.h"

#if __has_include(<hsa/hsa.h>)

#include <dlfcn.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iree/io/file_contents.h"

enum {
  // Packets of the ring; at least those of one round of a case.
  PACKETS = 16384,
  // Bytes of a dispatch's kernel arguments: a cache line.
  KERNARGS = 64,
  BINDINGS = 2,
};

#define FUNCTIONS(X)                        \
  X(hsa_init)                               \
  X(hsa_iterate_agents)                     \
  X(hsa_agent_get_info)                     \
  X(hsa_amd_agent_iterate_memory_pools)     \
  X(hsa_amd_memory_pool_get_info)           \
  X(hsa_amd_memory_pool_allocate)           \
  X(hsa_amd_agents_allow_access)            \
  X(hsa_queue_create)                       \
  X(hsa_queue_store_write_index_relaxed)    \
  X(hsa_signal_create)                      \
  X(hsa_signal_store_screlease)             \
  X(hsa_signal_wait_scacquire)              \
  X(hsa_code_object_reader_create_from_memory) \
  X(hsa_executable_create_alt)              \
  X(hsa_executable_load_agent_code_object)  \
  X(hsa_executable_freeze)                  \
  X(hsa_executable_get_symbol_by_name)      \
  X(hsa_executable_symbol_get_info)

// Functions of the HSA library, under their own names.
static struct {
#define DECLARE(name) __typeof__(&name) name;
  FUNCTIONS(DECLARE)
#undef DECLARE
} hsa;

static hsa_agent_t gpu, cpu;
static hsa_amd_memory_pool_t kernarg_pool;
static hsa_queue_t* queue;
static hsa_signal_t done;
static uint64_t kernel_object;
static uint8_t* kernargs;
static uint64_t bindings_in_use[BINDINGS];
static const uint64_t CONSTANTS = 2;
static uint64_t packet_index;
// Completion signal; each packet decrements it.
static hsa_signal_value_t submissions;

// Packet header: barrier bit and fence scopes.
static uint16_t header(hsa_packet_type_t type, bool barrier, hsa_fence_scope_t scope) {
  return (uint16_t)(type << HSA_PACKET_HEADER_TYPE | barrier << HSA_PACKET_HEADER_BARRIER |
                    scope << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE | scope << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE);
}

static iree_status_t check(hsa_status_t status, const char* what) {
  if (status == HSA_STATUS_SUCCESS || status == HSA_STATUS_INFO_BREAK) return iree_ok_status();
  return iree_make_status(IREE_STATUS_INTERNAL, "%s: %d", what, (int)status);
}

#define CALL(name, ...) IREE_RETURN_IF_ERROR(check(hsa.name(__VA_ARGS__), #name))

static hsa_status_t see_agent(hsa_agent_t agent, void* user_data) {
  hsa_device_type_t type;
  hsa_status_t status = hsa.hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
  if (status != HSA_STATUS_SUCCESS) return status;
  if (type == HSA_DEVICE_TYPE_GPU && !gpu.handle) gpu = agent;
  if (type == HSA_DEVICE_TYPE_CPU && !cpu.handle) cpu = agent;
  return HSA_STATUS_SUCCESS;
}

static hsa_status_t see_pool(hsa_amd_memory_pool_t pool, void* user_data) {
  uint32_t flags = 0;
  hsa_status_t status = hsa.hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
  if (status != HSA_STATUS_SUCCESS) return status;
  if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT) kernarg_pool = pool;
  return HSA_STATUS_SUCCESS;
}

static void queue_failed(hsa_status_t status, hsa_queue_t* queue, void* user_data) {
  fprintf(stderr, "the floor's queue failed: %d\n", (int)status);
  abort();
}

static iree_status_t load_kernel(iree_const_byte_span_t file) {
  hsa_code_object_reader_t reader;
  hsa_executable_t executable;
  hsa_executable_symbol_t symbol;
  CALL(hsa_code_object_reader_create_from_memory, file.data, file.data_length, &reader);
  CALL(hsa_executable_create_alt, HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &executable);
  CALL(hsa_executable_load_agent_code_object, executable, gpu, reader, NULL, NULL);
  CALL(hsa_executable_freeze, executable, NULL);
  CALL(hsa_executable_get_symbol_by_name, executable, "bindings_2.kd", &gpu, &symbol);
  CALL(hsa_executable_symbol_get_info, symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &kernel_object);
  return iree_ok_status();
}

static void write_kernargs(uint64_t index) {
  uint8_t* target = kernargs + index % PACKETS * KERNARGS;
  memcpy(target, bindings_in_use, sizeof(bindings_in_use));
  memcpy(target + sizeof(bindings_in_use), &CONSTANTS, sizeof(CONSTANTS));
}

iree_status_t hsa_floor_open(const char* path, const char* folder) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return iree_make_status(IREE_STATUS_NOT_FOUND, "%s", dlerror());
#define FIND(name) \
  if (!(hsa.name = (__typeof__(hsa.name))dlsym(library, #name))) return iree_make_status(IREE_STATUS_NOT_FOUND, #name);
  FUNCTIONS(FIND)
#undef FIND
  CALL(hsa_init);
  CALL(hsa_iterate_agents, see_agent, NULL);
  CALL(hsa_amd_agent_iterate_memory_pools, cpu, see_pool, NULL);
  void* memory = NULL;
  CALL(hsa_amd_memory_pool_allocate, kernarg_pool, PACKETS * KERNARGS, 0, &memory);
  CALL(hsa_amd_agents_allow_access, 1, &gpu, NULL, memory);
  kernargs = memory;
  bindings_in_use[0] = bindings_in_use[1] = (uint64_t)memory;
  for (uint64_t i = 0; i < PACKETS; ++i) write_kernargs(i);
  CALL(hsa_queue_create, gpu, PACKETS, HSA_QUEUE_TYPE_SINGLE, queue_failed, NULL, UINT32_MAX, UINT32_MAX, &queue);
  CALL(hsa_signal_create, 0, 0, NULL, &done);
  char name[4096];
  snprintf(name, sizeof(name), "%s/kernels.co", folder);
  iree_io_file_contents_t* file = NULL;
  IREE_RETURN_IF_ERROR(
      iree_io_file_contents_read(iree_make_cstring_view(name), iree_allocator_system(), &file));
  // The file is never freed: HSA may read it at any time.
  return load_kernel(file->const_buffer);
}

static void* packet_at(uint64_t index) { return (uint8_t*)queue->base_address + index % PACKETS * 64; }

static void publish(void* packet, uint16_t header, uint16_t setup) {
  atomic_store_explicit((_Atomic uint32_t*)packet, header | (uint32_t)setup << 16, memory_order_release);
}

// Reserves the next packets of the ring and returns the first one's index.
static uint64_t reserve(uint32_t count) {
  uint64_t first = packet_index;
  packet_index += count;
  hsa.hsa_queue_store_write_index_relaxed(queue, packet_index);
  return first;
}

// Publishes the packets up to here; the last one has the completion signal.
static void submit(void) {
  ++submissions;
  hsa.hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)packet_index - 1);
}

static void write_dispatch(uint64_t index, bool barrier, hsa_fence_scope_t scope, bool is_last) {
  hsa_kernel_dispatch_packet_t* packet = packet_at(index);
  packet->workgroup_size_x = 64;
  packet->workgroup_size_y = packet->workgroup_size_z = 1;
  packet->reserved0 = 0;
  packet->grid_size_x = 64;
  packet->grid_size_y = packet->grid_size_z = 1;
  packet->private_segment_size = packet->group_segment_size = 0;
  packet->kernel_object = kernel_object;
  packet->kernarg_address = kernargs + index % PACKETS * KERNARGS;
  packet->completion_signal = is_last ? done : (hsa_signal_t){0};
  publish(packet, header(HSA_PACKET_TYPE_KERNEL_DISPATCH, barrier, scope),
          1 << HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS);
}

void hsa_floor_barrier(void) {
  hsa_barrier_and_packet_t* packet = packet_at(reserve(1));
  memset((uint8_t*)packet + 4, 0, sizeof(*packet) - 4);
  packet->completion_signal = done;
  publish(packet, header(HSA_PACKET_TYPE_BARRIER_AND, true, HSA_FENCE_SCOPE_SYSTEM), 0);
  submit();
}

void hsa_floor_dispatch(void) {
  uint64_t index = reserve(1);
  write_kernargs(index);
  write_dispatch(index, true, HSA_FENCE_SCOPE_SYSTEM, true);
  submit();
}

void hsa_floor_replay(uint32_t dispatches, bool has_table) {
  uint64_t first = reserve(dispatches);
  for (uint32_t i = 0; i < dispatches; ++i) {
    bool is_last = i + 1 == dispatches, is_end = i == 0 || is_last;
    if (has_table) write_kernargs(first + i);
    write_dispatch(first + i, is_end, is_end ? HSA_FENCE_SCOPE_SYSTEM : HSA_FENCE_SCOPE_NONE, is_last);
  }
  submit();
}

void hsa_floor_wait(void) {
  hsa.hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1 - submissions, UINT64_MAX, HSA_WAIT_STATE_ACTIVE);
}

#else

iree_status_t hsa_floor_open(const char* library, const char* folder) {
  return iree_make_status(IREE_STATUS_UNAVAILABLE, "built without HSA's headers");
}

void hsa_floor_barrier(void) {}
void hsa_floor_dispatch(void) {}
void hsa_floor_replay(uint32_t dispatches, bool has_table) {}
void hsa_floor_wait(void) {}

#endif  // __has_include(<hsa/hsa.h>)
