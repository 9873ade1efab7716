// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registers this driver with IREE's HAL conformance test suite.

#include <cstdio>

#include "amdgpu_rs/driver_module.h"
#include "iree/hal/api.h"
#include "iree/hal/cts/util/registry.h"

namespace iree::hal::cts {
namespace {

// Makes the driver and its default device.
iree_status_t CreateDriverAndDevice(
    const iree_hal_device_create_params_t* create_params,
    iree_hal_driver_t** out_driver, iree_hal_device_t** out_device) {
  iree_hal_driver_registry_t* registry = iree_hal_driver_registry_default();
  iree_status_t status = iree_hal_amdgpu_rs_driver_module_register(registry);
  if (iree_status_is_already_exists(status)) {
    // Registered by the test case before this one.
    iree_status_free(status);
    status = iree_ok_status();
  }

  iree_hal_driver_t* driver = nullptr;
  if (iree_status_is_ok(status)) {
    status = iree_hal_driver_registry_try_create(
        registry, IREE_SV("amdgpu_rs"), iree_allocator_system(), &driver);
  }
  if (iree_status_is_ok(status)) {
    status = iree_hal_driver_create_default_device(
        driver, create_params, iree_allocator_system(), out_device);
  }
  if (iree_status_is_ok(status)) {
    *out_driver = driver;
    return status;
  }
  iree_hal_driver_release(driver);
  if (iree_status_is_unavailable(status)) {
    // The suite would take this for a reason to skip every case.
    iree_status_fprint(stderr, status);
    iree_status_free(status);
    status = iree_make_status(IREE_STATUS_FAILED_PRECONDITION,
                              "no device to test; the reason is above");
  }
  return status;
}

const bool registered = (CtsRegistry::RegisterBackend({
                             /*name=*/"amdgpu_rs",
                             /*info=*/
                             {
                                 /*name=*/"amdgpu_rs",
                                 /*factory=*/CreateDriverAndDevice,
                                 // Formats register themselves with the test
                                 // data, under the backend's name.
                                 /*executable_format=*/nullptr,
                                 /*executable_data=*/nullptr,
                                 RecordingMode::kDirect,
                                 /*unsupported_tests=*/{},
                                 /*expected_failures=*/{},
                             },
                             /*tags=*/{"async_queue", "file_io", "indirect"},
                             /*executable_formats=*/{},
                         }),
                         true);

}  // namespace
}  // namespace iree::hal::cts
