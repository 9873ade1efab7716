// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registers amdgpu_rs with IREE, with flags for its options.

#ifndef AMDGPU_RS_DRIVER_MODULE_H_
#define AMDGPU_RS_DRIVER_MODULE_H_

#include "iree/base/api.h"
#include "iree/hal/api.h"

#ifdef __cplusplus
extern "C" {
#endif  // __cplusplus

// Adds the driver `amdgpu_rs` to |registry|. Where IREE's own driver is not in
// the build it also answers to the name `amdgpu`, so that programs for that
// driver run unchanged.
//
// Drivers made through the registry take the flags `--amdgpu_rs_*` as they
// stand then. Fails with INCOMPATIBLE when the library was built against other
// IREE headers, and with ALREADY_EXISTS when |registry| has the driver.
IREE_API_EXPORT iree_status_t iree_hal_amdgpu_rs_driver_module_register(
    iree_hal_driver_registry_t* registry);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  // AMDGPU_RS_DRIVER_MODULE_H_
