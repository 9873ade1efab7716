# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Parts that both builds of IREE share: the one the driver is plugged into
# (../CMakeLists.txt) and the one for cargo (../crates/iree-runtime).

# The parts of IREE's runtime that the driver calls.
set(AMDGPU_RS_IREE_LIBRARIES
  iree::async
  iree::async::util::proactor_pool
  iree::base
  iree::base::internal::arena
  iree::base::threading
  iree::base::threading::thread
  iree::hal
  iree::hal::memory::passthrough_pool
  iree::hal::memory::slab_provider
  iree::hal::memory::tlsf_pool
  iree::hal::utils::file_transfer
  iree::hal::utils::files
  iree::hal::utils::platform_topology
  iree::hal::utils::resource_set
  iree::io::file_handle
)

# Writes to `path` how the C code of IREE's HAL is compiled in this build: lines
# `include=<folder>`, `define=<item>` and `option=<option>`. Several definitions
# and a sanitizer's option change the layout of structs, so bindgen and the C
# file it emits must see the same ones.
# `iree_source_dir` is the checkout that this build has added.
function(amdgpu_rs_write_iree_config iree_source_dir path)
  set(_HAL_DIR "${iree_source_dir}/runtime/src/iree/hal")
  foreach(_NAME CMAKE_C_FLAGS IREE_DEFAULT_COPTS IREE_INTERFACE_COPTS)
    get_directory_property(_${_NAME} DIRECTORY "${_HAL_DIR}" DEFINITION ${_NAME})
  endforeach()
  get_directory_property(_DIRECTORY_DEFINITIONS DIRECTORY "${_HAL_DIR}" COMPILE_DEFINITIONS)
  get_directory_property(_DIRECTORY_OPTIONS DIRECTORY "${_HAL_DIR}" COMPILE_OPTIONS)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" _BUILD_TYPE)
  separate_arguments(_C_FLAGS NATIVE_COMMAND
    "${_CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${_BUILD_TYPE}}")
  set(_OPTIONS ${_C_FLAGS})
  list(FILTER _OPTIONS INCLUDE REGEX "^-fsanitize=")
  list(TRANSFORM _OPTIONS PREPEND "option=")
  list(JOIN _OPTIONS "\n" _OPTIONS)
  set(_DEFINES ${_C_FLAGS} ${_IREE_DEFAULT_COPTS} ${_IREE_INTERFACE_COPTS}
    ${_DIRECTORY_OPTIONS})
  list(FILTER _DEFINES INCLUDE REGEX "^-D")
  list(TRANSFORM _DEFINES REPLACE "^-D" "")
  list(APPEND _DEFINES _GNU_SOURCE ${_DIRECTORY_DEFINITIONS}
    "$<TARGET_PROPERTY:iree::hal,INTERFACE_COMPILE_DEFINITIONS>")
  set(_INCLUDES
    "$<TARGET_PROPERTY:iree::hal,INTERFACE_INCLUDE_DIRECTORIES>"
    "$<TARGET_PROPERTY:iree_defs,INTERFACE_INCLUDE_DIRECTORIES>")
  file(GENERATE
    OUTPUT "${path}"
    CONTENT "include=$<JOIN:$<REMOVE_DUPLICATES:${_INCLUDES}>,\ninclude=>
define=$<JOIN:$<REMOVE_DUPLICATES:${_DEFINES}>,\ndefine=>
${_OPTIONS}
")
endfunction()
