// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "rig.h"

#include <stdio.h>

#include "iree/async/frontier_tracker.h"
#include "iree/async/util/proactor_pool.h"
#include "iree/io/file_contents.h"
#include "iree/modules/hal/module.h"
#include "iree/vm/bytecode/module.h"

// Without a parameter a device has two hardware queues on each GPU.
enum { DEFAULT_QUEUES = 2 };

static iree_status_t create_device(const rig_t* rig, iree_hal_driver_t* driver,
                                   const iree_hal_device_create_params_t* params, iree_allocator_t allocator,
                                   iree_hal_device_t** out_device) {
  if (rig->queues <= DEFAULT_QUEUES) {
    return iree_hal_driver_create_default_device(driver, params, allocator, out_device);
  }
  char queues[16];
  snprintf(queues, sizeof(queues), "%u", rig->queues);
  const iree_string_pair_t pairs[] = {
      iree_make_string_pair(IREE_SV("hardware_queues_per_gpu"), iree_make_cstring_view(queues))};
  iree_status_t status =
      iree_hal_driver_create_device_by_path(driver, iree_make_cstring_view(rig->driver), iree_string_view_empty(),
                                            IREE_ARRAYSIZE(pairs), pairs, params, allocator, out_device);
  if (!iree_status_is_invalid_argument(status)) return status;
  iree_status_free(status);
  return iree_make_status(IREE_STATUS_UNIMPLEMENTED, "no parameter for %u hardware queues on a GPU", rig->queues);
}

static iree_status_t open_device(rig_t* rig, iree_allocator_t allocator) {
  iree_hal_driver_t* driver = NULL;
  IREE_RETURN_IF_ERROR(iree_hal_driver_registry_try_create(iree_hal_driver_registry_default(),
                                                           iree_make_cstring_view(rig->driver), allocator, &driver));
  iree_hal_device_create_params_t params = iree_hal_device_create_params_default();
  iree_status_t status = iree_async_proactor_pool_create(1, NULL, iree_async_proactor_pool_options_default(),
                                                         allocator, &params.proactor_pool);
  if (iree_status_is_ok(status)) {
    status = create_device(rig, driver, &params, allocator, &rig->device);
  }
  iree_async_proactor_pool_release(params.proactor_pool);
  iree_hal_driver_release(driver);
  return status;
}

// The device group gives the device's queues their axes in frontiers.
static iree_status_t make_group(rig_t* rig, iree_allocator_t allocator) {
  iree_async_frontier_tracker_t* tracker = NULL;
  IREE_RETURN_IF_ERROR(
      iree_async_frontier_tracker_create(iree_async_frontier_tracker_options_default(), allocator, &tracker));
  iree_status_t status = iree_hal_device_group_create_from_device(rig->device, tracker, allocator, &rig->group);
  iree_async_frontier_tracker_release(tracker);
  return status;
}

// The device infers the code object's format from its bytes.
static iree_status_t load(rig_t* rig, iree_const_byte_span_t executable) {
  iree_hal_executable_cache_t* cache = NULL;
  IREE_RETURN_IF_ERROR(iree_hal_executable_cache_create(rig->device, IREE_SV("bench"), &cache));
  char format[128];
  iree_host_size_t size = 0;
  iree_status_t status =
      iree_hal_executable_cache_infer_format(cache, 0, executable, sizeof(format), format, &size);
  if (iree_status_is_ok(status)) {
    iree_hal_executable_params_t params;
    iree_hal_executable_params_initialize(&params);
    params.executable_format = iree_make_cstring_view(format);
    params.executable_data = executable;
    status = iree_hal_executable_cache_prepare_executable(cache, &params, &rig->executable);
  }
  iree_hal_executable_cache_release(cache);
  return status;
}

static iree_status_t read_file(const rig_t* rig, const char* name, iree_io_file_contents_t** out_file) {
  char path[4096];
  snprintf(path, sizeof(path), "%s/%s", rig->folder, name);
  return iree_io_file_contents_read(iree_make_cstring_view(path), iree_allocator_system(), out_file);
}

static iree_status_t load_kernels(rig_t* rig) {
  iree_io_file_contents_t* file = NULL;
  IREE_RETURN_IF_ERROR(read_file(rig, "kernels.co", &file));
  iree_status_t status = load(rig, file->const_buffer);
  iree_io_file_contents_free(file);
  return status;
}

iree_status_t rig_open(const char* driver, const char* folder, rig_t* rig) {
  iree_allocator_t allocator = iree_allocator_system();
  rig->driver = driver;
  rig->folder = folder;
  IREE_RETURN_IF_ERROR(open_device(rig, allocator));
  IREE_RETURN_IF_ERROR(make_group(rig, allocator));
  IREE_RETURN_IF_ERROR(load_kernels(rig));
  for (iree_host_size_t i = 0; i < IREE_ARRAYSIZE(rig->streams); ++i) {
    IREE_RETURN_IF_ERROR(iree_hal_semaphore_create(rig->device, IREE_HAL_QUEUE_AFFINITY_ANY, 0,
                                                   IREE_HAL_SEMAPHORE_FLAG_DEFAULT, &rig->streams[i].semaphore));
  }
  return iree_ok_status();
}

static iree_status_t make_buffer(rig_t* rig, iree_device_size_t size, iree_hal_buffer_t** out_buffer) {
  const iree_hal_buffer_params_t params = {
      .usage = IREE_HAL_BUFFER_USAGE_DEFAULT,
      .type = IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL,
  };
  return iree_hal_allocator_allocate_buffer(iree_hal_device_allocator(rig->device), params, size, out_buffer);
}

iree_status_t rig_make_buffers(rig_t* rig) {
  for (iree_host_size_t i = 0; i < IREE_ARRAYSIZE(rig->buffers); ++i) {
    IREE_RETURN_IF_ERROR(make_buffer(rig, RIG_BUFFER_SIZE, &rig->buffers[i]));
  }
  for (iree_host_size_t i = 0; i < IREE_ARRAYSIZE(rig->large_buffers); ++i) {
    IREE_RETURN_IF_ERROR(make_buffer(rig, RIG_LARGE_BUFFER_SIZE, &rig->large_buffers[i]));
  }
  return iree_ok_status();
}

// Replaces the device by one with |queues| hardware queues on each GPU. On failure the old device stays.
static iree_status_t reopen(rig_t* rig, uint32_t queues) {
  rig_t other = {.queues = queues};
  iree_status_t status = rig_open(rig->driver, rig->folder, &other);
  if (iree_status_is_ok(status)) status = rig_make_buffers(&other);
  rig_t* unused = iree_status_is_ok(status) ? rig : &other;
  rig_close(unused);
  if (unused == rig) *rig = other;
  return status;
}

iree_status_t rig_use(rig_t* rig, uint32_t bindings, uint32_t queues) {
  uint32_t of_device = queues <= DEFAULT_QUEUES ? 0 : queues;
  if (rig->queues != of_device) {
    IREE_RETURN_IF_ERROR(reopen(rig, of_device));
  }
  for (iree_host_size_t i = 0; i < IREE_ARRAYSIZE(rig->streams); ++i) {
    rig->streams[i].affinity = (iree_hal_queue_affinity_t)1 << (i % queues);
  }
  char name[32];
  snprintf(name, sizeof(name), "bindings_%u", bindings);
  return iree_hal_executable_lookup_function_by_name(rig->executable, iree_make_cstring_view(name), &rig->function);
}

static void sink_destroy(iree_hal_profile_sink_t* sink) {}

static iree_status_t sink_begin(iree_hal_profile_sink_t* sink, const iree_hal_profile_chunk_metadata_t* metadata) {
  return iree_ok_status();
}

static iree_status_t sink_write(iree_hal_profile_sink_t* sink, const iree_hal_profile_chunk_metadata_t* metadata,
                                iree_host_size_t count, const iree_const_byte_span_t* spans) {
  return iree_ok_status();
}

static iree_status_t sink_end(iree_hal_profile_sink_t* sink, const iree_hal_profile_chunk_metadata_t* metadata,
                              iree_status_code_t code) {
  return iree_ok_status();
}

iree_status_t rig_profile(rig_t* rig, iree_hal_device_profiling_data_families_t families) {
  static const iree_hal_profile_sink_vtable_t vtable = {
      .destroy = sink_destroy,
      .begin_session = sink_begin,
      .write = sink_write,
      .end_session = sink_end,
  };
  static iree_hal_resource_t sink;
  iree_hal_device_profiling_data_families_t before = rig->profiled;
  rig->profiled = 0;
  if (before) {
    IREE_RETURN_IF_ERROR(iree_hal_device_profiling_end(rig->device));
  }
  if (!families) return iree_ok_status();
  iree_hal_resource_initialize(&vtable, &sink);
  const iree_string_view_t counter = IREE_SVL("SQ_WAVES");
  const iree_hal_profile_counter_set_selection_t counters = {.counter_name_count = 1, .counter_names = &counter};
  iree_hal_device_profiling_options_t options = {.data_families = families, .sink = (iree_hal_profile_sink_t*)&sink};
  if (iree_any_bit_set(families, IREE_HAL_DEVICE_PROFILING_DATA_COUNTER_SAMPLES |
                                     IREE_HAL_DEVICE_PROFILING_DATA_COUNTER_RANGES)) {
    options.counter_set_count = 1;
    options.counter_sets = &counters;
  }
  if (iree_any_bit_set(families, IREE_HAL_DEVICE_PROFILING_DATA_EXECUTABLE_TRACES)) {
    // A trace must select all shader engines explicitly.
    options.capture_filter.flags = IREE_HAL_PROFILE_CAPTURE_FILTER_FLAG_EXECUTABLE_FUNCTION_PATTERN;
    options.capture_filter.executable_function_pattern = IREE_SV("*");
  }
  IREE_RETURN_IF_ERROR(iree_hal_device_profiling_begin(rig->device, &options));
  rig->profiled = families;
  return iree_ok_status();
}

iree_status_t rig_flush(rig_t* rig) {
  return rig->profiled ? iree_hal_device_profiling_flush(rig->device) : iree_ok_status();
}

static void unload_model(rig_t* rig) {
  iree_vm_list_release(rig->arguments);
  iree_vm_list_release(rig->results);
  iree_vm_context_release(rig->context);
  rig->arguments = rig->results = NULL;
  rig->context = NULL;
}

static iree_status_t make_context(rig_t* rig, uint32_t dispatches) {
  iree_allocator_t allocator = iree_allocator_system();
  char name[64];
  snprintf(name, sizeof(name), "chain-%u.vmfb", dispatches);
  iree_io_file_contents_t* file = NULL;
  IREE_RETURN_IF_ERROR(read_file(rig, name, &file));
  iree_vm_module_t* modules[2] = {NULL, NULL};
  iree_status_t status =
      iree_hal_module_create(rig->instance, iree_hal_module_device_policy_default(), rig->group,
                             IREE_HAL_MODULE_FLAG_SYNCHRONOUS, iree_hal_module_debug_sink_null(), allocator, &modules[0]);
  if (iree_status_is_ok(status)) {
    // The module owns the file from here on, also if its creation fails.
    status = iree_vm_bytecode_module_create(rig->instance, IREE_VM_BYTECODE_MODULE_FLAG_NONE, file->const_buffer,
                                            iree_io_file_contents_deallocator(file), allocator, &modules[1]);
  } else {
    iree_io_file_contents_free(file);
  }
  if (iree_status_is_ok(status)) {
    status = iree_vm_context_create_with_modules(rig->instance, IREE_VM_CONTEXT_FLAG_NONE, IREE_ARRAYSIZE(modules),
                                                 modules, allocator, &rig->context);
  }
  for (iree_host_size_t i = 0; i < IREE_ARRAYSIZE(modules); ++i) iree_vm_module_release(modules[i]);
  return status;
}

iree_status_t rig_load_model(rig_t* rig, uint32_t dispatches) {
  iree_allocator_t allocator = iree_allocator_system();
  unload_model(rig);
  if (!rig->instance) {
    IREE_RETURN_IF_ERROR(iree_vm_instance_create(IREE_VM_TYPE_CAPACITY_DEFAULT, allocator, &rig->instance));
    IREE_RETURN_IF_ERROR(iree_hal_module_register_all_types(rig->instance));
  }
  IREE_RETURN_IF_ERROR(make_context(rig, dispatches));
  IREE_RETURN_IF_ERROR(iree_vm_context_resolve_function(rig->context, IREE_SV("module.chain"), &rig->model));
  IREE_RETURN_IF_ERROR(iree_vm_list_create(iree_vm_make_undefined_type_def(), 4, allocator, &rig->arguments));
  IREE_RETURN_IF_ERROR(iree_vm_list_create(iree_vm_make_undefined_type_def(), 1, allocator, &rig->results));
  for (iree_host_size_t i = 0; i < IREE_ARRAYSIZE(rig->model_inputs); ++i) {
    if (rig->model_inputs[i]) continue;
    const iree_hal_dim_t shape[] = {64, 64};
    IREE_RETURN_IF_ERROR(iree_hal_buffer_view_create(rig->large_buffers[i], IREE_ARRAYSIZE(shape), shape,
                                                     IREE_HAL_ELEMENT_TYPE_FLOAT_32,
                                                     IREE_HAL_ENCODING_TYPE_DENSE_ROW_MAJOR, allocator,
                                                     &rig->model_inputs[i]));
  }
  return iree_ok_status();
}

void rig_close(rig_t* rig) {
  iree_status_ignore(rig_profile(rig, 0));
  unload_model(rig);
  for (iree_host_size_t i = 0; i < IREE_ARRAYSIZE(rig->model_inputs); ++i) {
    iree_hal_buffer_view_release(rig->model_inputs[i]);
  }
  iree_vm_instance_release(rig->instance);
  iree_hal_command_buffer_release(rig->program);
  for (iree_host_size_t i = 0; i < IREE_ARRAYSIZE(rig->streams); ++i) {
    iree_hal_semaphore_release(rig->streams[i].semaphore);
  }
  for (iree_host_size_t i = 0; i < IREE_ARRAYSIZE(rig->buffers); ++i) {
    iree_hal_buffer_release(rig->buffers[i]);
  }
  for (iree_host_size_t i = 0; i < IREE_ARRAYSIZE(rig->large_buffers); ++i) {
    iree_hal_buffer_release(rig->large_buffers[i]);
  }
  iree_hal_executable_release(rig->executable);
  iree_hal_device_release(rig->device);
  iree_hal_device_group_release(rig->group);
}

iree_status_t rig_wait(const rig_t* rig) {
  for (iree_host_size_t i = 0; i < IREE_ARRAYSIZE(rig->streams); ++i) {
    const stream_t* stream = &rig->streams[i];
    IREE_RETURN_IF_ERROR(iree_hal_semaphore_wait(stream->semaphore, stream->value, iree_infinite_timeout(),
                                                 IREE_ASYNC_WAIT_FLAG_NONE));
  }
  return iree_ok_status();
}
