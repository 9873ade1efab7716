// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches beyond the GPU's limits, or the kernel's, are refused: nothing of
// them reaches the queue.
//
// expect 1024 x 2 work-items: INVALID_ARGUMENT
// expect 2048 work-items by the kernel's metadata: INVALID_ARGUMENT
// expect 1 MiB of LDS by the launch: INVALID_ARGUMENT
// expect 1 MiB of LDS by the kernel: INVALID_ARGUMENT
// expect[amdgpu_rs] the device works: OK -- nothing of them reached a queue
// expect[amdgpu] the device works: INVALID_ARGUMENT -- the first of them stopped its queue

#include "probe.h"

static iree_status_t launch(iree_hal_device_t* device, iree_hal_executable_t* executable, const char* kernel,
                            const uint32_t size[3], uint32_t lds) {
  iree_hal_buffer_t* target = probe_buffer(device, 64);
  iree_hal_semaphore_t* done = probe_semaphore(device);
  iree_hal_dispatch_config_t config = iree_hal_make_static_dispatch_config(1, 1, 1);
  memcpy(config.workgroup_size, size, sizeof(config.workgroup_size));
  config.dynamic_workgroup_local_memory = lds;
  iree_hal_buffer_ref_t ref = iree_hal_make_buffer_ref(target, 0, 64);
  const uint32_t value = 1;
  // Those of kernels/*.s have no constants.
  iree_host_size_t constants = strcmp(kernel, "report") == 0 ? sizeof(value) : 0;
  iree_status_t status = iree_hal_device_queue_dispatch(
      device, 1, NONE, AT(done, 1), executable, probe_function(executable, kernel), config,
      iree_make_const_byte_span(&value, constants), (iree_hal_buffer_ref_list_t){1, &ref}, IREE_HAL_DISPATCH_FLAG_NONE);
  if (iree_status_is_ok(status)) status = WAIT(done, 1);
  iree_hal_semaphore_release(done);
  iree_hal_buffer_release(target);
  return status;
}

// Some drivers refuse the file, some the launch.
static iree_status_t load_and_launch(iree_hal_device_t* device, const char* file, const char* kernel) {
  iree_byte_span_t code = probe_code(file);
  iree_hal_executable_t* executable = NULL;
  iree_status_t status = probe_load(device, code, NULL, &executable);
  free(code.data);
  if (iree_status_is_ok(status)) status = launch(device, executable, kernel, (const uint32_t[3]){0, 0, 0}, 0);
  iree_hal_executable_release(executable);
  return status;
}

PROBE(limits) {
  probe_device_t device = probe_open(NULL);
  iree_hal_executable_t* kernels = probe_kernels(device.device);
  fact_status("1024 x 2 work-items", launch(device.device, kernels, "report", (const uint32_t[3]){1024, 2, 1}, 0));
  fact_status("2048 work-items by the kernel's metadata", load_and_launch(device.device, "wide.co", "wide"));
  fact_status("1 MiB of LDS by the launch",
              launch(device.device, kernels, "report", (const uint32_t[3]){1, 1, 1}, 1 << 20));
  fact_status("1 MiB of LDS by the kernel", load_and_launch(device.device, "large_lds.co", "large_lds"));
  fact_status("the device works", launch(device.device, kernels, "report", (const uint32_t[3]){1, 1, 1}, 0));
  iree_hal_executable_release(kernels);
  probe_close(&device);
}
