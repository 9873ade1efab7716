// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The embedding API of IREE's own driver for AMD GPUs, for this driver.
//
// A program that was written for iree/hal/drivers/amdgpu/api.h and
// iree/hal/drivers/amdgpu/registration/driver_module.h includes this header in
// place of both and links this driver. Its calls are inline functions over
// amdgpu_rs/api.h; both drivers may be in one program, but not both headers in
// one source file.
//
// Missing here, so that a program that uses it does not compile:
//   * HSA's functions and handles (members of iree_hal_amdgpu_libhsa_t,
//     iree_hsa_*, lists of agents): this driver loads HSA itself, and shows no
//     table of its functions. A topology is made from a path or a mask, not by
//     adding agents.
// Accepted without effect:
//   * host_queues.upload_capacity: there is no such ring.

#ifndef AMDGPU_RS_AMDGPU_API_H_
#define AMDGPU_RS_AMDGPU_API_H_

#if defined(IREE_HAL_DRIVERS_AMDGPU_API_H_)
#error "include amdgpu_rs/amdgpu_api.h in place of iree/hal/drivers/amdgpu/api.h, not beside it"
#endif  // IREE_HAL_DRIVERS_AMDGPU_API_H_

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "amdgpu_rs/api.h"
#include "amdgpu_rs/driver_module.h"
#include "iree/base/api.h"
#include "iree/hal/api.h"

#ifdef __cplusplus
extern "C" {
#endif  // __cplusplus

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

// Option `queue_placement`.
typedef enum iree_hal_amdgpu_queue_placement_e {
  IREE_HAL_AMDGPU_QUEUE_PLACEMENT_ANY = 0,
  IREE_HAL_AMDGPU_QUEUE_PLACEMENT_HOST,
  // Refused by both drivers.
  IREE_HAL_AMDGPU_QUEUE_PLACEMENT_DEVICE,
} iree_hal_amdgpu_queue_placement_t;

// Option `command_buffer_mode`.
typedef enum iree_hal_amdgpu_command_buffer_mode_e {
  IREE_HAL_AMDGPU_COMMAND_BUFFER_MODE_AQL = 0,
  IREE_HAL_AMDGPU_COMMAND_BUFFER_MODE_PM4 = 1,
  IREE_HAL_AMDGPU_COMMAND_BUFFER_MODE_AUTO = 2,
} iree_hal_amdgpu_command_buffer_mode_t;

// Option `pm4_command_buffer_publication_mode`.
typedef enum iree_hal_amdgpu_pm4_command_buffer_publication_mode_e {
  // Refused by both drivers.
  IREE_HAL_AMDGPU_PM4_COMMAND_BUFFER_PUBLICATION_MODE_DIRECT = 0,
  IREE_HAL_AMDGPU_PM4_COMMAND_BUFFER_PUBLICATION_MODE_HOST_COPY = 1,
  IREE_HAL_AMDGPU_PM4_COMMAND_BUFFER_PUBLICATION_MODE_HOST_ASYNC_COPY = 2,
  IREE_HAL_AMDGPU_PM4_COMMAND_BUFFER_PUBLICATION_MODE_HOST_ASYNC_COPY_NONBLOCKING =
      3,
} iree_hal_amdgpu_pm4_command_buffer_publication_mode_t;

// Options of a device, by the names of the C driver. README.md and --help
// explain those that are flags, by the same names.
typedef struct iree_hal_amdgpu_logical_device_options_t {
  struct {
    struct {
      iree_host_size_t block_size;
    } small;
    struct {
      iree_host_size_t block_size;
    } large;
    struct {
      iree_host_size_t usable_block_size;
    } command_buffer;
  } host_block_pools;
  struct {
    struct {
      iree_device_size_t block_size;
      iree_host_size_t initial_capacity;
    } small;
    struct {
      iree_device_size_t block_size;
      iree_host_size_t initial_capacity;
    } large;
  } device_block_pools;
  struct {
    iree_device_size_t range_length;
    iree_device_size_t alignment;
    uint8_t frontier_capacity;
  } default_pool;
  iree_hal_amdgpu_queue_placement_t queue_placement;
  iree_hal_amdgpu_command_buffer_mode_t command_buffer_mode;
  iree_hal_amdgpu_pm4_command_buffer_publication_mode_t
      pm4_command_buffer_publication_mode;
  struct {
    // Packets.
    uint32_t aql_capacity;
    // Entries.
    uint32_t notification_capacity;
    // Blocks of 64 bytes.
    uint32_t kernarg_capacity;
    // Bytes; of no effect here.
    uint32_t upload_capacity;
  } host_queues;
  uint64_t preallocate_pools : 1;
  uint64_t exclusive_execution : 1;
  uint64_t force_wait_barrier_defer : 1;
  uint64_t enable_experimental_pm4_command_buffers : 1;
  iree_duration_t wait_active_for_ns;
} iree_hal_amdgpu_logical_device_options_t;

// Options of a driver. Nothing in them is used after a call.
typedef struct iree_hal_amdgpu_driver_options_t {
  // Where to look for the HSA runtime, and nowhere else if there are any.
  iree_string_view_list_t libhsa_search_paths;
  // Of devices whose creation names no others.
  iree_hal_amdgpu_logical_device_options_t default_device_options;
} iree_hal_amdgpu_driver_options_t;

static inline void amdgpu_rs_as_amdgpu_logical_device_options_initialize(
    iree_hal_amdgpu_logical_device_options_t* out_options) {
  memset(out_options, 0, sizeof(*out_options));
  out_options->host_block_pools.small.block_size = 8 * 1024;
  out_options->host_block_pools.large.block_size = 64 * 1024;
  out_options->host_block_pools.command_buffer.usable_block_size = 128 * 1024;
  out_options->device_block_pools.small.block_size = 32 * 1024;
  out_options->device_block_pools.small.initial_capacity = 128;
  out_options->device_block_pools.large.block_size = 256 * 1024;
  out_options->device_block_pools.large.initial_capacity = 16;
  out_options->default_pool.range_length = 64 * 1024 * 1024;
  out_options->default_pool.alignment = 256;
  out_options->default_pool.frontier_capacity = 8;
  out_options->pm4_command_buffer_publication_mode =
      IREE_HAL_AMDGPU_PM4_COMMAND_BUFFER_PUBLICATION_MODE_HOST_COPY;
  out_options->host_queues.aql_capacity = 64 * 1024;
  out_options->host_queues.notification_capacity = 1024;
  out_options->host_queues.kernarg_capacity = 16 * 1024 * 1024 / 64;
  out_options->preallocate_pools = 1;
}

// The C driver's options have no text either: both refuse all pairs.
static inline iree_status_t amdgpu_rs_as_amdgpu_options_parse(
    iree_string_pair_list_t params) {
  if (params.count == 0) return iree_ok_status();
  return iree_make_status(
      IREE_STATUS_INVALID_ARGUMENT,
      "'%.*s' is no option that goes here as text; set a member of the options, "
      "or a parameter of the device's URI",
      (int)params.pairs[0].key.size, params.pairs[0].key.data);
}

static inline iree_status_t amdgpu_rs_as_amdgpu_logical_device_options_parse(
    iree_hal_amdgpu_logical_device_options_t* options,
    iree_string_pair_list_t params) {
  (void)options;
  return amdgpu_rs_as_amdgpu_options_parse(params);
}

static inline void amdgpu_rs_as_amdgpu_driver_options_initialize(
    iree_hal_amdgpu_driver_options_t* out_options) {
  memset(out_options, 0, sizeof(*out_options));
  amdgpu_rs_as_amdgpu_logical_device_options_initialize(
      &out_options->default_device_options);
}

static inline iree_status_t amdgpu_rs_as_amdgpu_driver_options_parse(
    iree_hal_amdgpu_driver_options_t* options, iree_string_pair_list_t params) {
  (void)options;
  return amdgpu_rs_as_amdgpu_options_parse(params);
}

// Options as amdgpu_rs/api.h takes them: a key and text each.
typedef struct amdgpu_rs_as_amdgpu_pairs_t {
  iree_host_size_t count;
  iree_string_pair_t pairs[24];
  char texts[24][24];
} amdgpu_rs_as_amdgpu_pairs_t;

static inline void amdgpu_rs_as_amdgpu_add_text(
    amdgpu_rs_as_amdgpu_pairs_t* pairs, const char* key, const char* value) {
  pairs->pairs[pairs->count++] = iree_make_cstring_pair(key, value);
}

static inline void amdgpu_rs_as_amdgpu_add_number(
    amdgpu_rs_as_amdgpu_pairs_t* pairs, const char* key, int64_t value) {
  char* text = pairs->texts[pairs->count];
  snprintf(text, sizeof(pairs->texts[0]), "%" PRIi64, value);
  amdgpu_rs_as_amdgpu_add_text(pairs, key, text);
}

// A word of |words|; INVALID_ARGUMENT, before anything else, for a number that
// that the enumeration does not have.
static inline iree_status_t amdgpu_rs_as_amdgpu_add_word(
    amdgpu_rs_as_amdgpu_pairs_t* pairs, const char* key, uint32_t value,
    const char* const* words, iree_host_size_t word_count) {
  if (value >= word_count) {
    return iree_make_status(IREE_STATUS_INVALID_ARGUMENT,
                            "option %s has no value %u", key, value);
  }
  amdgpu_rs_as_amdgpu_add_text(pairs, key, words[value]);
  return iree_ok_status();
}

static inline iree_status_t amdgpu_rs_as_amdgpu_collect(
    const iree_hal_amdgpu_logical_device_options_t* options,
    iree_host_size_t queue_count, amdgpu_rs_as_amdgpu_pairs_t* out_pairs) {
  static const char* const placements[] = {"any", "host", "device"};
  static const char* const modes[] = {"aql", "pm4", "auto"};
  static const char* const publications[] = {
      "direct", "host-copy", "host-async-copy", "host-async-copy-nonblocking"};
  out_pairs->count = 0;
#define AMDGPU_RS_NUMBER_OF(key, value) \
  amdgpu_rs_as_amdgpu_add_number(out_pairs, key, (int64_t)(value))
#define AMDGPU_RS_SWITCH_OF(key, value) \
  amdgpu_rs_as_amdgpu_add_text(out_pairs, key, (value) ? "true" : "false")
  AMDGPU_RS_NUMBER_OF("host_block_pool_small_size",
                      options->host_block_pools.small.block_size);
  AMDGPU_RS_NUMBER_OF("host_block_pool_large_size",
                      options->host_block_pools.large.block_size);
  AMDGPU_RS_NUMBER_OF(
      "host_block_pool_command_buffer_size",
      options->host_block_pools.command_buffer.usable_block_size);
  AMDGPU_RS_NUMBER_OF("device_block_pool_small_size",
                      options->device_block_pools.small.block_size);
  AMDGPU_RS_NUMBER_OF("device_block_pool_small_capacity",
                      options->device_block_pools.small.initial_capacity);
  AMDGPU_RS_NUMBER_OF("device_block_pool_large_size",
                      options->device_block_pools.large.block_size);
  AMDGPU_RS_NUMBER_OF("device_block_pool_large_capacity",
                      options->device_block_pools.large.initial_capacity);
  AMDGPU_RS_NUMBER_OF("default_pool_range_length",
                      options->default_pool.range_length);
  AMDGPU_RS_NUMBER_OF("default_pool_alignment",
                      options->default_pool.alignment);
  AMDGPU_RS_NUMBER_OF("default_pool_frontier_capacity",
                      options->default_pool.frontier_capacity);
  AMDGPU_RS_NUMBER_OF("aql_queue_capacity", options->host_queues.aql_capacity);
  AMDGPU_RS_NUMBER_OF("notification_capacity",
                      options->host_queues.notification_capacity);
  AMDGPU_RS_NUMBER_OF("kernarg_capacity",
                      options->host_queues.kernarg_capacity);
  AMDGPU_RS_NUMBER_OF("wait_active_for_ns", options->wait_active_for_ns);
  AMDGPU_RS_NUMBER_OF("hardware_queues_per_gpu", queue_count);
  AMDGPU_RS_SWITCH_OF("preallocate_pools", options->preallocate_pools);
  AMDGPU_RS_SWITCH_OF("exclusive_execution", options->exclusive_execution);
  AMDGPU_RS_SWITCH_OF("force_wait_barrier_defer",
                      options->force_wait_barrier_defer);
  AMDGPU_RS_SWITCH_OF("experimental_pm4_command_buffers",
                      options->enable_experimental_pm4_command_buffers);
#undef AMDGPU_RS_NUMBER_OF
#undef AMDGPU_RS_SWITCH_OF
  IREE_RETURN_IF_ERROR(amdgpu_rs_as_amdgpu_add_word(
      out_pairs, "queue_placement", (uint32_t)options->queue_placement,
      placements, IREE_ARRAYSIZE(placements)));
  IREE_RETURN_IF_ERROR(amdgpu_rs_as_amdgpu_add_word(
      out_pairs, "command_buffer_mode", (uint32_t)options->command_buffer_mode,
      modes, IREE_ARRAYSIZE(modes)));
  return amdgpu_rs_as_amdgpu_add_word(
      out_pairs, "pm4_command_buffer_publication_mode",
      (uint32_t)options->pm4_command_buffer_publication_mode, publications,
      IREE_ARRAYSIZE(publications));
}

//===----------------------------------------------------------------------===//
// Driver
//===----------------------------------------------------------------------===//

static inline iree_status_t amdgpu_rs_as_amdgpu_create(
    iree_string_view_t identifier,
    const iree_hal_amdgpu_logical_device_options_t* options,
    iree_host_size_t queue_count, iree_string_view_list_t search_paths,
    iree_allocator_t host_allocator, iree_hal_driver_t** out_driver) {
  *out_driver = NULL;
  amdgpu_rs_as_amdgpu_pairs_t known;
  IREE_RETURN_IF_ERROR(
      amdgpu_rs_as_amdgpu_collect(options, queue_count, &known));
  iree_string_pair_t* pairs = NULL;
  const iree_host_size_t count = known.count + search_paths.count;
  IREE_RETURN_IF_ERROR(iree_allocator_malloc_array(
      host_allocator, count, sizeof(*pairs), (void**)&pairs));
  memcpy(pairs, known.pairs, known.count * sizeof(*pairs));
  for (iree_host_size_t i = 0; i < search_paths.count; ++i) {
    pairs[known.count + i] = iree_make_string_pair(IREE_SV("libhsa_search_path"),
                                                   search_paths.values[i]);
  }
  iree_status_t status = iree_hal_amdgpu_rs_driver_create(
      identifier, count, pairs, host_allocator, out_driver);
  iree_allocator_free(host_allocator, pairs);
  return status;
}

static inline iree_status_t amdgpu_rs_as_amdgpu_driver_create(
    iree_string_view_t identifier,
    const iree_hal_amdgpu_driver_options_t* options,
    iree_allocator_t host_allocator, iree_hal_driver_t** out_driver) {
  return amdgpu_rs_as_amdgpu_create(identifier, &options->default_device_options,
                                    /*queue_count=*/0,
                                    options->libhsa_search_paths,
                                    host_allocator, out_driver);
}

//===----------------------------------------------------------------------===//
// A device without a driver
//===----------------------------------------------------------------------===//

typedef uint32_t iree_hal_amdgpu_libhsa_flags_t;
enum iree_hal_amdgpu_libhsa_flag_bits_e {
  IREE_HAL_AMDGPU_LIBHSA_FLAG_NONE = 0u,
};

// A loaded HSA runtime: the driver that holds it, and a copy of the paths. It
// is owned by the caller that initialized or copied it.
typedef struct iree_hal_amdgpu_libhsa_t {
  bool initialized;
  iree_hal_driver_t* driver;
  iree_allocator_t host_allocator;
  iree_string_view_list_t search_paths;
} iree_hal_amdgpu_libhsa_t;

static inline void amdgpu_rs_as_amdgpu_libhsa_deinitialize(
    iree_hal_amdgpu_libhsa_t* libhsa) {
  iree_hal_driver_release(libhsa->driver);
  iree_allocator_free(libhsa->host_allocator, (void*)libhsa->search_paths.values);
  memset(libhsa, 0, sizeof(*libhsa));
}

// The views and their text in one block.
static inline iree_status_t amdgpu_rs_as_amdgpu_copy_paths(
    iree_string_view_list_t paths, iree_allocator_t host_allocator,
    iree_string_view_list_t* out_paths) {
  iree_host_size_t size = paths.count * sizeof(iree_string_view_t) + 1;
  for (iree_host_size_t i = 0; i < paths.count; ++i) size += paths.values[i].size;
  iree_string_view_t* views = NULL;
  IREE_RETURN_IF_ERROR(
      iree_allocator_malloc(host_allocator, size, (void**)&views));
  char* text = (char*)(views + paths.count);
  for (iree_host_size_t i = 0; i < paths.count; ++i) {
    memcpy(text, paths.values[i].data, paths.values[i].size);
    views[i] = iree_make_string_view(text, paths.values[i].size);
    text += paths.values[i].size;
  }
  out_paths->count = paths.count;
  out_paths->values = views;
  return iree_ok_status();
}

// Loads the runtime now: fails as iree_hal_driver_query_available_devices does.
static inline iree_status_t amdgpu_rs_as_amdgpu_libhsa_initialize(
    iree_hal_amdgpu_libhsa_flags_t flags, iree_string_view_list_t search_paths,
    iree_allocator_t host_allocator, iree_hal_amdgpu_libhsa_t* out_libhsa) {
  memset(out_libhsa, 0, sizeof(*out_libhsa));
  if (flags != IREE_HAL_AMDGPU_LIBHSA_FLAG_NONE) {
    return iree_make_status(IREE_STATUS_INVALID_ARGUMENT,
                            "0x%x are no flags of libhsa", flags);
  }
  out_libhsa->host_allocator = host_allocator;
  iree_status_t status = amdgpu_rs_as_amdgpu_copy_paths(
      search_paths, host_allocator, &out_libhsa->search_paths);
  iree_hal_amdgpu_logical_device_options_t options;
  amdgpu_rs_as_amdgpu_logical_device_options_initialize(&options);
  if (iree_status_is_ok(status)) {
    status = amdgpu_rs_as_amdgpu_create(IREE_SV("amdgpu"), &options,
                                        /*queue_count=*/0, search_paths,
                                        host_allocator, &out_libhsa->driver);
  }
  iree_host_size_t count = 0;
  iree_hal_device_info_t* infos = NULL;
  if (iree_status_is_ok(status)) {
    status = iree_hal_driver_query_available_devices(
        out_libhsa->driver, host_allocator, &count, &infos);
  }
  iree_allocator_free(host_allocator, infos);
  if (iree_status_is_ok(status)) {
    out_libhsa->initialized = true;
  } else {
    amdgpu_rs_as_amdgpu_libhsa_deinitialize(out_libhsa);
  }
  return status;
}

static inline iree_status_t amdgpu_rs_as_amdgpu_libhsa_copy(
    const iree_hal_amdgpu_libhsa_t* libhsa, iree_hal_amdgpu_libhsa_t* out_libhsa) {
  *out_libhsa = *libhsa;
  iree_status_t status = amdgpu_rs_as_amdgpu_copy_paths(
      libhsa->search_paths, libhsa->host_allocator, &out_libhsa->search_paths);
  if (!iree_status_is_ok(status)) {
    memset(out_libhsa, 0, sizeof(*out_libhsa));
    return status;
  }
  iree_hal_driver_retain(out_libhsa->driver);
  return iree_ok_status();
}

#define IREE_HAL_AMDGPU_MAX_GPU_AGENT 64
#define IREE_HAL_AMDGPU_DEFAULT_GPU_AGENT_QUEUE_COUNT (2)

typedef uint64_t iree_hal_amdgpu_gpu_agent_mask_t;

// The GPUs that make up a device: a path or, if that is empty, a mask of
// ordinals, 0 for all that are of one kind. Which they are is known once a
// device is made.
typedef struct iree_hal_amdgpu_topology_t {
  char path[2048];
  uint64_t gpu_agent_mask;
  iree_host_size_t gpu_agent_queue_count;
} iree_hal_amdgpu_topology_t;

static inline void amdgpu_rs_as_amdgpu_topology_initialize(
    iree_hal_amdgpu_topology_t* out_topology) {
  memset(out_topology, 0, sizeof(*out_topology));
  out_topology->gpu_agent_queue_count =
      IREE_HAL_AMDGPU_DEFAULT_GPU_AGENT_QUEUE_COUNT;
}

static inline void amdgpu_rs_as_amdgpu_topology_deinitialize(
    iree_hal_amdgpu_topology_t* topology) {
  memset(topology, 0, sizeof(*topology));
}

static inline iree_status_t amdgpu_rs_as_amdgpu_topology_initialize_with_defaults(
    const iree_hal_amdgpu_libhsa_t* libhsa,
    iree_hal_amdgpu_topology_t* out_topology) {
  (void)libhsa;
  amdgpu_rs_as_amdgpu_topology_initialize(out_topology);
  return iree_ok_status();
}

static inline iree_status_t amdgpu_rs_as_amdgpu_topology_initialize_from_path(
    const iree_hal_amdgpu_libhsa_t* libhsa, iree_string_view_t path,
    iree_hal_amdgpu_topology_t* out_topology) {
  (void)libhsa;
  amdgpu_rs_as_amdgpu_topology_initialize(out_topology);
  if (path.size >= sizeof(out_topology->path)) {
    return iree_make_status(IREE_STATUS_OUT_OF_RANGE,
                            "a path of %" PRIhsz " bytes", path.size);
  }
  memcpy(out_topology->path, path.data, path.size);
  return iree_ok_status();
}

static inline iree_status_t
amdgpu_rs_as_amdgpu_topology_initialize_from_gpu_agent_mask(
    const iree_hal_amdgpu_libhsa_t* libhsa, uint64_t gpu_agent_mask,
    iree_hal_amdgpu_topology_t* out_topology) {
  (void)libhsa;
  amdgpu_rs_as_amdgpu_topology_initialize(out_topology);
  out_topology->gpu_agent_mask = gpu_agent_mask;
  return iree_ok_status();
}

static inline iree_status_t amdgpu_rs_as_amdgpu_topology_verify(
    const iree_hal_amdgpu_topology_t* topology,
    const iree_hal_amdgpu_libhsa_t* libhsa) {
  // The device is refused if they are no device.
  (void)topology;
  (void)libhsa;
  return iree_ok_status();
}

static inline iree_status_t amdgpu_rs_as_amdgpu_logical_device_create(
    iree_string_view_t identifier,
    const iree_hal_amdgpu_logical_device_options_t* options,
    const iree_hal_amdgpu_libhsa_t* libhsa,
    const iree_hal_amdgpu_topology_t* topology,
    const iree_hal_device_create_params_t* create_params,
    iree_allocator_t host_allocator, iree_hal_device_t** out_device) {
  *out_device = NULL;
  iree_hal_driver_t* driver = NULL;
  IREE_RETURN_IF_ERROR(amdgpu_rs_as_amdgpu_create(
      identifier, options, topology->gpu_agent_queue_count,
      libhsa->search_paths, host_allocator, &driver));
  iree_status_t status = iree_ok_status();
  if (topology->path[0] != 0 || topology->gpu_agent_mask == 0) {
    status = iree_hal_driver_create_device_by_path(
        driver, identifier, iree_make_cstring_view(topology->path),
        /*param_count=*/0, /*params=*/NULL, create_params, host_allocator,
        out_device);
  } else {
    status = iree_hal_driver_create_device_by_id(
        driver, (iree_hal_device_id_t)topology->gpu_agent_mask,
        /*param_count=*/0, /*params=*/NULL, create_params, host_allocator,
        out_device);
  }
  iree_hal_driver_release(driver);
  return status;
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//
// As macros, so that a program may have both drivers, whose symbols have these
// names.

#define iree_hal_amdgpu_driver_module_register \
  iree_hal_amdgpu_rs_driver_module_register
#define iree_hal_amdgpu_driver_create amdgpu_rs_as_amdgpu_driver_create
#define iree_hal_amdgpu_driver_options_initialize \
  amdgpu_rs_as_amdgpu_driver_options_initialize
#define iree_hal_amdgpu_driver_options_parse \
  amdgpu_rs_as_amdgpu_driver_options_parse
#define iree_hal_amdgpu_logical_device_create \
  amdgpu_rs_as_amdgpu_logical_device_create
#define iree_hal_amdgpu_logical_device_options_initialize \
  amdgpu_rs_as_amdgpu_logical_device_options_initialize
#define iree_hal_amdgpu_logical_device_options_parse \
  amdgpu_rs_as_amdgpu_logical_device_options_parse
#define iree_hal_amdgpu_libhsa_initialize amdgpu_rs_as_amdgpu_libhsa_initialize
#define iree_hal_amdgpu_libhsa_deinitialize \
  amdgpu_rs_as_amdgpu_libhsa_deinitialize
#define iree_hal_amdgpu_libhsa_copy amdgpu_rs_as_amdgpu_libhsa_copy
#define iree_hal_amdgpu_topology_initialize \
  amdgpu_rs_as_amdgpu_topology_initialize
#define iree_hal_amdgpu_topology_deinitialize \
  amdgpu_rs_as_amdgpu_topology_deinitialize
#define iree_hal_amdgpu_topology_initialize_with_defaults \
  amdgpu_rs_as_amdgpu_topology_initialize_with_defaults
#define iree_hal_amdgpu_topology_initialize_from_path \
  amdgpu_rs_as_amdgpu_topology_initialize_from_path
#define iree_hal_amdgpu_topology_initialize_from_gpu_agent_mask \
  amdgpu_rs_as_amdgpu_topology_initialize_from_gpu_agent_mask
#define iree_hal_amdgpu_topology_verify amdgpu_rs_as_amdgpu_topology_verify

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  // AMDGPU_RS_AMDGPU_API_H_
