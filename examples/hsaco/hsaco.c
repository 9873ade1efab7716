// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads a code object that a C compiler made and launches a kernel of it
// through IREE's HAL: no compiler of IREE, no VM, no module. README.md has the
// commands that build and run it.

#include <stdio.h>

#include "amdgpu_rs/api.h"
#include "iree/async/frontier_tracker.h"
#include "iree/async/util/proactor_pool.h"
#include "iree/base/api.h"
#include "iree/hal/api.h"
#include "iree/io/file_contents.h"

enum { COUNT = 100, WORKGROUP_SIZE = 64 };

// Opens the driver's default device. A device needs a pool of proactors, which
// watch files and events for it.
static iree_status_t open_device(iree_allocator_t allocator, iree_hal_device_t** out_device) {
  iree_hal_driver_t* driver = NULL;
  IREE_RETURN_IF_ERROR(iree_hal_amdgpu_rs_driver_create(IREE_SV("amdgpu_rs"), 0, NULL, allocator, &driver));
  iree_hal_device_create_params_t params = iree_hal_device_create_params_default();
  iree_status_t status = iree_async_proactor_pool_create(
      1, NULL, iree_async_proactor_pool_options_default(), allocator, &params.proactor_pool);
  if (iree_status_is_ok(status)) {
    status = iree_hal_driver_create_default_device(driver, &params, allocator, out_device);
  }
  iree_async_proactor_pool_release(params.proactor_pool);
  iree_hal_driver_release(driver);
  return status;
}

// A device works in a group, which orders its queues' work in time.
static iree_status_t make_group(iree_hal_device_t* device, iree_allocator_t allocator,
                                iree_hal_device_group_t** out_group) {
  iree_async_frontier_tracker_t* tracker = NULL;
  IREE_RETURN_IF_ERROR(iree_async_frontier_tracker_create(
      iree_async_frontier_tracker_options_default(), allocator, &tracker));
  iree_status_t status = iree_hal_device_group_create_from_device(device, tracker, allocator, out_group);
  iree_async_frontier_tracker_release(tracker);
  return status;
}

// Loads the code object at |path|. The device tells its format from its bytes.
static iree_status_t load(iree_hal_device_t* device, const char* path, iree_allocator_t allocator,
                          iree_hal_executable_t** out_executable) {
  iree_io_file_contents_t* file = NULL;
  IREE_RETURN_IF_ERROR(iree_io_file_contents_read(iree_make_cstring_view(path), allocator, &file));
  iree_hal_executable_cache_t* cache = NULL;
  iree_status_t status = iree_hal_executable_cache_create(device, IREE_SV("hsaco"), &cache);

  char format[128];
  iree_host_size_t size = 0;
  if (iree_status_is_ok(status)) {
    status = iree_hal_executable_cache_infer_format(cache, 0, file->const_buffer, sizeof(format), format, &size);
  }
  if (iree_status_is_ok(status)) {
    iree_hal_executable_params_t params;
    iree_hal_executable_params_initialize(&params);
    params.executable_format = iree_make_cstring_view(format);
    params.executable_data = file->const_buffer;
    status = iree_hal_executable_cache_prepare_executable(cache, &params, out_executable);
  }
  iree_hal_executable_cache_release(cache);
  iree_io_file_contents_free(file);
  return status;
}

// Makes a buffer of the device with a copy of |data|.
static iree_status_t upload(iree_hal_device_t* device, const float* data, iree_hal_buffer_t** out_buffer) {
  const iree_hal_buffer_params_t params = {
      .usage = IREE_HAL_BUFFER_USAGE_DEFAULT,
      .type = IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL,
  };
  IREE_RETURN_IF_ERROR(iree_hal_allocator_allocate_buffer(iree_hal_device_allocator(device), params,
                                                          COUNT * sizeof(*data), out_buffer));
  return iree_hal_device_transfer_h2d(device, data, *out_buffer, 0, COUNT * sizeof(*data), 0,
                                      iree_infinite_timeout());
}

// Launches saxpy(y, x, a, COUNT) and waits for its end.
static iree_status_t saxpy(iree_hal_device_t* device, iree_hal_executable_t* executable, iree_hal_buffer_t* y,
                           iree_hal_buffer_t* x, float a) {
  iree_hal_executable_function_t function;
  IREE_RETURN_IF_ERROR(iree_hal_executable_lookup_function_by_name(executable, IREE_SV("saxpy"), &function));
  iree_hal_semaphore_t* done = NULL;
  IREE_RETURN_IF_ERROR(iree_hal_semaphore_create(device, IREE_HAL_QUEUE_AFFINITY_ANY, 0,
                                                 IREE_HAL_SEMAPHORE_FLAG_DEFAULT, &done));

  iree_hal_dispatch_config_t config =
      iree_hal_make_static_dispatch_config((COUNT + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE, 1, 1);
  config.workgroup_size[0] = WORKGROUP_SIZE;
  config.workgroup_size[1] = config.workgroup_size[2] = 1;
  // The kernel's pointers are bindings and its other arguments constants, each in the order of its parameters.
  const iree_hal_buffer_ref_t bindings[] = {
      iree_hal_make_buffer_ref(y, 0, IREE_HAL_WHOLE_BUFFER),
      iree_hal_make_buffer_ref(x, 0, IREE_HAL_WHOLE_BUFFER),
  };
  const struct {
    float a;
    uint32_t count;
  } constants = {a, COUNT};

  uint64_t end = 1;
  const iree_hal_semaphore_list_t signals = {.count = 1, .semaphores = &done, .payload_values = &end};
  iree_status_t status = iree_hal_device_queue_dispatch(
      device, IREE_HAL_QUEUE_AFFINITY_ANY, iree_hal_semaphore_list_empty(), signals, executable, function, config,
      iree_make_const_byte_span(&constants, sizeof(constants)),
      (iree_hal_buffer_ref_list_t){.count = IREE_ARRAYSIZE(bindings), .values = bindings},
      IREE_HAL_DISPATCH_FLAG_NONE);
  if (iree_status_is_ok(status)) {
    status = iree_hal_semaphore_wait(done, end, iree_infinite_timeout(), IREE_ASYNC_WAIT_FLAG_NONE);
  }
  iree_hal_semaphore_release(done);
  return status;
}

static iree_status_t run(iree_hal_device_t* device, const char* path, iree_allocator_t allocator) {
  float x[COUNT], y[COUNT];
  for (int i = 0; i < COUNT; ++i) {
    x[i] = (float)i;
    y[i] = 1.0f;
  }
  iree_hal_executable_t* executable = NULL;
  iree_hal_buffer_t* x_buffer = NULL;
  iree_hal_buffer_t* y_buffer = NULL;
  iree_status_t status = load(device, path, allocator, &executable);
  if (iree_status_is_ok(status)) status = upload(device, x, &x_buffer);
  if (iree_status_is_ok(status)) status = upload(device, y, &y_buffer);
  if (iree_status_is_ok(status)) status = saxpy(device, executable, y_buffer, x_buffer, 2.0f);
  if (iree_status_is_ok(status)) {
    status = iree_hal_device_transfer_d2h(device, y_buffer, 0, y, sizeof(y), 0, iree_infinite_timeout());
  }
  if (iree_status_is_ok(status)) {
    printf("2 * x + 1 = %g %g %g ... %g\n", y[0], y[1], y[2], y[COUNT - 1]);
  }
  iree_hal_buffer_release(y_buffer);
  iree_hal_buffer_release(x_buffer);
  iree_hal_executable_release(executable);
  return status;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s <saxpy's code object>\n", argv[0]);
    return 2;
  }
  iree_allocator_t allocator = iree_allocator_system();
  iree_hal_device_t* device = NULL;
  iree_hal_device_group_t* group = NULL;
  iree_status_t status = open_device(allocator, &device);
  if (iree_status_is_ok(status)) status = make_group(device, allocator, &group);
  if (iree_status_is_ok(status)) status = run(device, argv[1], allocator);
  iree_hal_device_release(device);
  iree_hal_device_group_release(group);
  if (iree_status_is_ok(status)) return 0;
  iree_status_fprint(stderr, status);
  iree_status_free(status);
  return 1;
}
