// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory that is not there cannot be imported, and the error is the caller's.
//
// expect[amdgpu_rs] unmapped host memory: INVALID_ARGUMENT -- the address is the caller's
// expect[amdgpu] unmapped host memory: UNKNOWN -- HSA's error is passed on

#include "probe.h"

#include <sys/mman.h>

PROBE(unmapped_import) {
  probe_device_t device = probe_open(NULL);
  void* place = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(place, 65536);
  iree_hal_external_buffer_t external = {
      .type = IREE_HAL_EXTERNAL_BUFFER_TYPE_HOST_ALLOCATION,
      .size = 4096,
      .handle = {.host_allocation = {.ptr = place}},
  };
  const iree_hal_buffer_params_t params = {
      .usage = IREE_HAL_BUFFER_USAGE_DEFAULT | IREE_HAL_BUFFER_USAGE_MAPPING,
      .type = IREE_HAL_MEMORY_TYPE_HOST_LOCAL | IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE,
  };
  iree_hal_buffer_t* buffer = NULL;
  fact_status("unmapped host memory",
              iree_hal_allocator_import_buffer(iree_hal_device_allocator(device.device), params, &external,
                                               iree_hal_buffer_release_callback_null(), &buffer));
  iree_hal_buffer_release(buffer);
  probe_close(&device);
}
