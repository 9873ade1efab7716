// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registers the driver as a program in a Bazel build does, and lists its devices
// by the path that --device of IREE's tools takes.

#include <stdio.h>

#include "amdgpu_rs/driver_module.h"
#include "iree/base/api.h"
#include "iree/hal/api.h"

static iree_status_t list_devices(iree_hal_driver_registry_t* registry, iree_allocator_t allocator) {
  IREE_RETURN_IF_ERROR(iree_hal_amdgpu_rs_driver_module_register(registry));
  iree_hal_driver_t* driver = NULL;
  IREE_RETURN_IF_ERROR(iree_hal_driver_registry_try_create(registry, IREE_SV("amdgpu_rs"), allocator, &driver));
  iree_host_size_t count = 0;
  iree_hal_device_info_t* infos = NULL;
  iree_status_t status = iree_hal_driver_query_available_devices(driver, allocator, &count, &infos);
  for (iree_host_size_t i = 0; i < count; ++i) {
    printf("amdgpu_rs://%.*s %.*s\n", (int)infos[i].path.size, infos[i].path.data, (int)infos[i].name.size,
           infos[i].name.data);
  }
  iree_allocator_free(allocator, infos);
  iree_hal_driver_release(driver);
  return status;
}

int main(void) {
  iree_allocator_t allocator = iree_allocator_system();
  iree_hal_driver_registry_t* registry = NULL;
  iree_status_t status = iree_hal_driver_registry_allocate(allocator, &registry);
  if (iree_status_is_ok(status)) status = list_devices(registry, allocator);
  iree_hal_driver_registry_free(registry);
  if (iree_status_is_ok(status)) return 0;
  iree_status_fprint(stderr, status);
  iree_status_free(status);
  return 1;
}
