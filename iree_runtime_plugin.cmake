# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Offers the driver to an IREE build: -DIREE_CMAKE_PLUGIN_PATHS=<this folder>
# -DIREE_EXTERNAL_HAL_DRIVERS=amdgpu_rs. See CMakeLists.txt.

# First of all: an older IREE fails below with words of its own.
include("${CMAKE_CURRENT_LIST_DIR}/build_support/versions.cmake")
amdgpu_rs_check_iree("${IREE_SOURCE_DIR}")

iree_register_external_hal_driver(
  NAME
    amdgpu_rs
  SOURCE_DIR
    "${CMAKE_CURRENT_LIST_DIR}"
  DRIVER_TARGET
    iree::hal::drivers::amdgpu_rs::registration
  REGISTER_FN
    iree_hal_amdgpu_rs_driver_module_register
)
