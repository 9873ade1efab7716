// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "rig.h"

#include "iree/async/frontier_tracker.h"
#include "iree/async/util/proactor_pool.h"

static iree_status_t open_device(rig_t* rig, iree_allocator_t allocator) {
  iree_hal_driver_t* driver = NULL;
  IREE_RETURN_IF_ERROR(iree_hal_driver_registry_try_create(iree_hal_driver_registry_default(),
                                                           iree_make_cstring_view(rig->driver), allocator, &driver));
  iree_hal_device_create_params_t params = iree_hal_device_create_params_default();
  iree_status_t status = iree_async_proactor_pool_create(1, NULL, iree_async_proactor_pool_options_default(),
                                                         allocator, &params.proactor_pool);
  if (iree_status_is_ok(status)) {
    status = iree_hal_driver_create_default_device(driver, &params, allocator, &rig->device);
  }
  iree_async_proactor_pool_release(params.proactor_pool);
  iree_hal_driver_release(driver);
  return status;
}

// A device works in a group, which orders its queues' work in time.
static iree_status_t make_group(rig_t* rig, iree_allocator_t allocator) {
  iree_async_frontier_tracker_t* tracker = NULL;
  IREE_RETURN_IF_ERROR(
      iree_async_frontier_tracker_create(iree_async_frontier_tracker_options_default(), allocator, &tracker));
  iree_status_t status = iree_hal_device_group_create_from_device(rig->device, tracker, allocator, &rig->group);
  iree_async_frontier_tracker_release(tracker);
  return status;
}

// The device tells the code object's format from its bytes.
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
  if (iree_status_is_ok(status)) {
    status = iree_hal_executable_lookup_function_by_name(rig->executable, IREE_SV("saxpy"), &rig->function);
  }
  return status;
}

iree_status_t rig_open(const char* driver, iree_const_byte_span_t executable, rig_t* rig) {
  iree_allocator_t allocator = iree_allocator_system();
  rig->driver = driver;
  IREE_RETURN_IF_ERROR(open_device(rig, allocator));
  IREE_RETURN_IF_ERROR(make_group(rig, allocator));
  IREE_RETURN_IF_ERROR(load(rig, executable));
  for (iree_host_size_t i = 0; i < IREE_ARRAYSIZE(rig->buffers); ++i) {
    const iree_hal_buffer_params_t params = {
        .usage = IREE_HAL_BUFFER_USAGE_DEFAULT,
        .type = IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL,
    };
    IREE_RETURN_IF_ERROR(iree_hal_allocator_allocate_buffer(iree_hal_device_allocator(rig->device), params,
                                                            RIG_BUFFER_SIZE, &rig->buffers[i]));
  }
  for (iree_host_size_t i = 0; i < IREE_ARRAYSIZE(rig->streams); ++i) {
    rig->streams[i].affinity = (iree_hal_queue_affinity_t)1 << i;
    IREE_RETURN_IF_ERROR(iree_hal_semaphore_create(rig->device, IREE_HAL_QUEUE_AFFINITY_ANY, 0,
                                                   IREE_HAL_SEMAPHORE_FLAG_DEFAULT, &rig->streams[i].semaphore));
  }
  return iree_ok_status();
}

void rig_close(rig_t* rig) {
  iree_hal_command_buffer_release(rig->program);
  for (iree_host_size_t i = 0; i < IREE_ARRAYSIZE(rig->streams); ++i) {
    iree_hal_semaphore_release(rig->streams[i].semaphore);
  }
  for (iree_host_size_t i = 0; i < IREE_ARRAYSIZE(rig->buffers); ++i) {
    iree_hal_buffer_release(rig->buffers[i]);
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
