// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The memory of each request, and requests that are refused.
//
//
// expect device local: type 0x30, compatibility 0xc07
// expect device local, mapped: INVALID_ARGUMENT
// expect[amdgpu] device local, host visible: type 0x36, compatibility 0x100c07 -- fine memory
// expect[amdgpu_rs] device local, host visible: type 0x32, compatibility 0x100c07 -- coarse memory, faster for kernels
// expect device local, host visible, host coherent: type 0x36, compatibility 0x100c07
// expect host local, device visible: type 0x56, compatibility 0xc03
// expect host local: type 0x56, compatibility 0xc03

#include "probe.h"

static void ask(iree_hal_device_t* device, const char* what, iree_hal_memory_type_t type,
                iree_hal_buffer_usage_t usage) {
  const iree_hal_buffer_params_t params = {.usage = usage, .type = type};
  iree_hal_buffer_params_t resolved = params;
  iree_device_size_t size = 4096;
  iree_hal_buffer_compatibility_t compatibility = iree_hal_allocator_query_buffer_compatibility(
      iree_hal_device_allocator(device), params, size, &resolved, &size);
  iree_hal_buffer_t* buffer = NULL;
  iree_status_t status =
      iree_hal_allocator_allocate_buffer(iree_hal_device_allocator(device), params, 4096, &buffer);
  if (iree_status_is_ok(status)) {
    fact(what, "type 0x%x, compatibility 0x%x", iree_hal_buffer_memory_type(buffer), compatibility);
  } else {
    fact_status(what, status);
  }
  iree_hal_buffer_release(buffer);
}

PROBE(memory_types) {
  probe_device_t device = probe_open(NULL);
  const iree_hal_buffer_usage_t usage = IREE_HAL_BUFFER_USAGE_DEFAULT, mapped = usage | IREE_HAL_BUFFER_USAGE_MAPPING;
  ask(device.device, "device local", IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL, usage);
  ask(device.device, "device local, mapped", IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL, mapped);
  ask(device.device, "device local, host visible", IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL | IREE_HAL_MEMORY_TYPE_HOST_VISIBLE,
      mapped);
  ask(device.device, "device local, host visible, host coherent",
      IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL | IREE_HAL_MEMORY_TYPE_HOST_VISIBLE | IREE_HAL_MEMORY_TYPE_HOST_COHERENT,
      mapped);
  ask(device.device, "host local, device visible", IREE_HAL_MEMORY_TYPE_HOST_LOCAL | IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE,
      mapped);
  ask(device.device, "host local", IREE_HAL_MEMORY_TYPE_HOST_LOCAL, mapped);
  probe_close(&device);
}
