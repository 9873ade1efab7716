// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The driver's flags and its factory. IREE's flags are C static initializers,
// so they are here. The library parses them: it gets them as text, like the
// parameters of a device URI.

#include "amdgpu_rs/driver_module.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "amdgpu_rs/api.h"
#include "iree/base/tooling/flags.h"
#include "iree/hal/memory/slab_provider.h"

//===----------------------------------------------------------------------===//
// Flags
//===----------------------------------------------------------------------===//

IREE_FLAG_LIST(string, amdgpu_rs_libhsa_search_path,
               "Directory or file of the HSA runtime (libhsa-runtime64.so.1). No "
               "other place is searched. Repeatable.");

// begin: options
// Made from src/core/gpu/options.rs: UPDATE_DOCS=1 cargo test -p amdgpu-gpu options_of_the
// X(key, help): whole numbers; 0 leaves the default.
#define AMDGPU_RS_NUMBER_FLAGS(X) \
  X(host_block_pool_small_size, \
    "Size of the largest vector that a queue caches for reuse: a power of " \
    "two of at least 4096. 0 is the default, 8192.") \
  X(host_block_pool_large_size, \
    "Size of staging blocks: a file transfer through staging memory moves " \
    "64 of them at a time. A power of two of at least 65536. 0 is the " \
    "default, 65536.") \
  X(host_block_pool_command_buffer_size, \
    "Size of blocks of recordings: a released command buffer's host memory " \
    "is cached for reuse up to 32 of them, and freed beyond that. A power " \
    "of two of at least 256. 0 is the default, 131072.") \
  X(device_block_pool_small_size, \
    "Size of the blocks for kernel arguments of small command buffers: a " \
    "power of two of at least 1024. 0 is the default, 32768.") \
  X(device_block_pool_small_capacity, \
    "Number of small blocks that are allocated at a time. 0 is the " \
    "default, 128.") \
  X(device_block_pool_large_size, \
    "Size of the blocks for kernel arguments of larger command buffers: a " \
    "power of two of at least 65536. Arguments beyond that size have an " \
    "allocation of their own. 0 is the default, 262144.") \
  X(device_block_pool_large_capacity, \
    "Number of large blocks that are allocated at a time. 0 is the " \
    "default, 16.") \
  X(default_pool_range_length, \
    "Length of a range of the default queue-allocation pool of each GPU. 0 " \
    "is the default, 67108864.") \
  X(default_pool_alignment, \
    "Least alignment in the default pool: a power of two of at least 16. 0 " \
    "is the default, 256.") \
  X(default_pool_frontier_capacity, \
    "Death-frontier entries of each free block of the default pool, at " \
    "least one for each queue: at most 255. 0 is the default, 8.") \
  X(wait_active_for_ns, \
    "Time to spin before a wait blocks. Not implemented: must be 0.") \
  X(hardware_queues_per_gpu, \
    "Number of hardware queues on each GPU: at most 255, and 64 over all " \
    "GPUs. 0 is the default, 2.") \
  X(aql_queue_capacity, \
    "Packets in the AQL ring of each hardware queue: a power of two. 0 is " \
    "the default, 65536.") \
  X(kernarg_capacity, \
    "64-byte blocks in the kernarg ring of each queue: a power of two, at " \
    "least twice aql_queue_capacity. 0 is the default, 262144.") \
  X(notification_capacity, \
    "Entries of the notification ring of each queue: a power of two. 0 is " \
    "the default, 1024.") \
  X(collective_timeout, \
    "Longest wait of a collective for another rank. 0 is the default, 600.")

// X(key, default, help): words.
#define AMDGPU_RS_WORD_FLAGS(X) \
  X(queue_placement, "any", \
    "Scheduler of queue operations. 'any' is the host; 'device' is not " \
    "implemented. Values: any, host, device.") \
  X(command_buffer_mode, "aql", \
    "Form of recorded command buffers: AQL packets, or with 'pm4' resident " \
    "streams of PM4 commands if they hold dispatches alone. 'auto' is " \
    "'pm4' for long ones on gfx942 and gfx1100, otherwise 'aql'. Values: " \
    "aql, pm4, auto.") \
  X(pm4_command_buffer_publication_mode, "host-copy", \
    "Memory of the commands of PM4 command buffers: host memory, or a copy " \
    "in GPU memory. With 'host-async-copy' the end of recording waits for " \
    "the copy, with 'host-async-copy-nonblocking' the first execution " \
    "does. Values: host-copy, host-async-copy, host-async-copy-nonblocking.") \
  X(kernarg_memory, "any", \
    "Memory of kernel arguments. 'any' is GPU memory if the host can " \
    "access it, otherwise host memory. Values: any, host.") \
  X(collective_engine, "auto", \
    "Transport of collectives between processes. 'auto' is MPI if the " \
    "process has initialised it for threads, otherwise TCP. 'mpi' " \
    "initialises MPI if necessary. 'rccl' moves the data by RCCL. Values: " \
    "auto, tcp, mpi, rccl.")

// X(key, default, help): switches.
#define AMDGPU_RS_SWITCH_FLAGS(X) \
  X(preallocate_pools, true, \
    "Fills the device block pools when a device is made, not at their " \
    "first use.") \
  X(exclusive_execution, false, \
    "Exclusive queue scheduling. Not implemented.") \
  X(force_wait_barrier_defer, false, \
    "Sends every wait across queues through the host.") \
  X(hip_device_id, true, \
    "Also runs modules compiled for IREE's target 'hip': the device " \
    "answers to that id.") \
  X(experimental_pm4_command_buffers, false, \
    "Lets command_buffer_mode=auto use PM4 on gfx90a, gfx11 and gfx12.0 " \
    "too, where no run on hardware is known.")
// end: options

#define AMDGPU_RS_NUMBER(key, help) \
  IREE_FLAG(int64_t, amdgpu_rs_##key, 0, help);
#define AMDGPU_RS_WORD(key, default_value, help) \
  IREE_FLAG(string, amdgpu_rs_##key, default_value, help);
#define AMDGPU_RS_SWITCH(key, default_value, help) \
  IREE_FLAG(bool, amdgpu_rs_##key, default_value, help);

AMDGPU_RS_NUMBER_FLAGS(AMDGPU_RS_NUMBER)
AMDGPU_RS_WORD_FLAGS(AMDGPU_RS_WORD)
AMDGPU_RS_SWITCH_FLAGS(AMDGPU_RS_SWITCH)

#if !AMDGPU_RS_BESIDE_AMDGPU
// The spelling of IREE's own driver, whose place this one takes.
IREE_FLAG_LIST(string, amdgpu_libhsa_search_path,
               "As --amdgpu_rs_libhsa_search_path.");
#define AMDGPU_RS_NUMBER_ALIAS(key, help) \
  IREE_FLAG(int64_t, amdgpu_##key, 0, "As --amdgpu_rs_" #key ".");
#define AMDGPU_RS_WORD_ALIAS(key, default_value, help) \
  IREE_FLAG(string, amdgpu_##key, default_value, "As --amdgpu_rs_" #key ".");
#define AMDGPU_RS_SWITCH_ALIAS(key, default_value, help) \
  IREE_FLAG(bool, amdgpu_##key, default_value, "As --amdgpu_rs_" #key ".");
AMDGPU_RS_NUMBER_FLAGS(AMDGPU_RS_NUMBER_ALIAS)
AMDGPU_RS_WORD_FLAGS(AMDGPU_RS_WORD_ALIAS)
AMDGPU_RS_SWITCH_FLAGS(AMDGPU_RS_SWITCH_ALIAS)
#define AMDGPU_RS_ALIAS(key, otherwise) FLAG_amdgpu_##key
#else
#define AMDGPU_RS_ALIAS(key, otherwise) otherwise
#endif  // !AMDGPU_RS_BESIDE_AMDGPU

// How many flags a driver is made from, apart from search paths.
#define AMDGPU_RS_COUNT(...) +1
enum {
  AMDGPU_RS_NUMBER_COUNT = 0 AMDGPU_RS_NUMBER_FLAGS(AMDGPU_RS_COUNT),
  AMDGPU_RS_WORD_COUNT = 0 AMDGPU_RS_WORD_FLAGS(AMDGPU_RS_COUNT),
  AMDGPU_RS_SWITCH_COUNT = 0 AMDGPU_RS_SWITCH_FLAGS(AMDGPU_RS_COUNT),
  AMDGPU_RS_FLAG_COUNT =
      AMDGPU_RS_NUMBER_COUNT + AMDGPU_RS_WORD_COUNT + AMDGPU_RS_SWITCH_COUNT,
};

// The flags as key and value. Numbers need text that is not the flag's own.
typedef struct amdgpu_rs_flags_t {
  iree_host_size_t count;
  iree_string_pair_t pairs[AMDGPU_RS_FLAG_COUNT];
  iree_host_size_t number_count;
  char numbers[AMDGPU_RS_NUMBER_COUNT][24];
} amdgpu_rs_flags_t;

static void amdgpu_rs_flags_add(amdgpu_rs_flags_t* flags, const char* key,
                                const char* value) {
  flags->pairs[flags->count++] = iree_make_cstring_pair(key, value);
}

static void amdgpu_rs_flags_add_number(amdgpu_rs_flags_t* flags,
                                       const char* key, int64_t value) {
  if (value == 0) return;
  char* text = flags->numbers[flags->number_count++];
  snprintf(text, sizeof(flags->numbers[0]), "%" PRIi64, value);
  amdgpu_rs_flags_add(flags, key, text);
}

static void amdgpu_rs_flags_collect(amdgpu_rs_flags_t* flags) {
  flags->count = 0;
  flags->number_count = 0;
  // Of two spellings the one that was given counts, this driver's first.
#define AMDGPU_RS_ADD_NUMBER(key, ...)                       \
  amdgpu_rs_flags_add_number(                                \
      flags, #key,                                           \
      FLAG_amdgpu_rs_##key != 0                              \
          ? FLAG_amdgpu_rs_##key                             \
          : AMDGPU_RS_ALIAS(key, 0));
#define AMDGPU_RS_ADD_WORD(key, default_value, ...)          \
  amdgpu_rs_flags_add(                                       \
      flags, #key,                                           \
      strcmp(FLAG_amdgpu_rs_##key, default_value) != 0       \
          ? FLAG_amdgpu_rs_##key                             \
          : AMDGPU_RS_ALIAS(key, default_value));
#define AMDGPU_RS_ADD_SWITCH(key, default_value, ...)        \
  amdgpu_rs_flags_add(                                       \
      flags, #key,                                           \
      (FLAG_amdgpu_rs_##key != default_value                 \
           ? FLAG_amdgpu_rs_##key                            \
           : AMDGPU_RS_ALIAS(key, default_value))            \
          ? "true"                                           \
          : "false");
  AMDGPU_RS_NUMBER_FLAGS(AMDGPU_RS_ADD_NUMBER)
  AMDGPU_RS_WORD_FLAGS(AMDGPU_RS_ADD_WORD)
  AMDGPU_RS_SWITCH_FLAGS(AMDGPU_RS_ADD_SWITCH)
}

//===----------------------------------------------------------------------===//
// Factory
//===----------------------------------------------------------------------===//

static iree_status_t amdgpu_rs_factory_enumerate(
    void* self, iree_host_size_t* out_driver_info_count,
    const iree_hal_driver_info_t** out_driver_infos) {
  static const iree_hal_driver_info_t infos[] = {
      {
          .driver_name = IREE_SVL("amdgpu_rs"),
          .full_name = IREE_SVL("AMD GPUs through HSA (amdgpu_rs)"),
      },
#if !AMDGPU_RS_BESIDE_AMDGPU
      {
          .driver_name = IREE_SVL("amdgpu"),
          .full_name = IREE_SVL("AMD GPUs through HSA (amdgpu_rs as amdgpu)"),
      },
#endif  // !AMDGPU_RS_BESIDE_AMDGPU
  };
  *out_driver_info_count = IREE_ARRAYSIZE(infos);
  *out_driver_infos = infos;
  return iree_ok_status();
}

static iree_status_t amdgpu_rs_factory_try_create(
    void* self, iree_string_view_t driver_name, iree_allocator_t host_allocator,
    iree_hal_driver_t** out_driver) {
  *out_driver = NULL;
  amdgpu_rs_flags_t flags;
  amdgpu_rs_flags_collect(&flags);

  // Search paths are as many as the user gives.
  iree_flag_string_list_t paths = FLAG_amdgpu_rs_libhsa_search_path_list();
#if !AMDGPU_RS_BESIDE_AMDGPU
  if (paths.count == 0) paths = FLAG_amdgpu_libhsa_search_path_list();
#endif  // !AMDGPU_RS_BESIDE_AMDGPU
  iree_host_size_t count = flags.count + paths.count;
  iree_string_pair_t* pairs = NULL;
  IREE_RETURN_IF_ERROR(iree_allocator_malloc_array(
      host_allocator, count, sizeof(*pairs), (void**)&pairs));
  memcpy(pairs, flags.pairs, flags.count * sizeof(*pairs));
  for (iree_host_size_t i = 0; i < paths.count; ++i) {
    pairs[flags.count + i] =
        iree_make_string_pair(IREE_SV("libhsa_search_path"), paths.values[i]);
  }

  iree_status_t status = iree_hal_amdgpu_rs_driver_create(
      driver_name, count, pairs, host_allocator, out_driver);
  iree_allocator_free(host_allocator, pairs);
  return status;
}

IREE_API_EXPORT iree_status_t iree_hal_amdgpu_rs_driver_module_register(
    iree_hal_driver_registry_t* registry) {
#define AMDGPU_RS_SIZE(type) {#type, sizeof(type)}
  static const iree_hal_amdgpu_rs_struct_size_t sizes[] = {
      AMDGPU_RS_SIZE(iree_async_semaphore_vtable_t),
      AMDGPU_RS_SIZE(iree_hal_allocator_vtable_t),
      AMDGPU_RS_SIZE(iree_hal_buffer_vtable_t),
      AMDGPU_RS_SIZE(iree_hal_command_buffer_vtable_t),
      AMDGPU_RS_SIZE(iree_hal_device_vtable_t),
      AMDGPU_RS_SIZE(iree_hal_driver_vtable_t),
      AMDGPU_RS_SIZE(iree_hal_event_vtable_t),
      AMDGPU_RS_SIZE(iree_hal_executable_cache_vtable_t),
      AMDGPU_RS_SIZE(iree_hal_executable_vtable_t),
      AMDGPU_RS_SIZE(iree_hal_semaphore_vtable_t),
      AMDGPU_RS_SIZE(iree_hal_slab_provider_vtable_t),
      // Structs that the driver embeds and whose layout configuration changes.
      AMDGPU_RS_SIZE(iree_async_semaphore_t),
      AMDGPU_RS_SIZE(iree_hal_buffer_t),
      AMDGPU_RS_SIZE(iree_hal_command_buffer_t),
      AMDGPU_RS_SIZE(iree_hal_allocator_statistics_t),
  };
  IREE_RETURN_IF_ERROR(
      iree_hal_amdgpu_rs_verify_struct_sizes(IREE_ARRAYSIZE(sizes), sizes));

  static const iree_hal_driver_factory_t factory = {
      .self = NULL,
      .enumerate = amdgpu_rs_factory_enumerate,
      .try_create = amdgpu_rs_factory_try_create,
  };
  return iree_hal_driver_registry_register_factory(registry, &factory);
}
