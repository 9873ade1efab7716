# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds the driver's library by cargo: sets _LIBRARY, and makes the target
# amdgpu_rs_cargo. Included by ../CMakeLists.txt, which lists the variables.

find_program(AMDGPU_RS_CARGO cargo REQUIRED
  HINTS "$ENV{CARGO_HOME}/bin" "$ENV{HOME}/.cargo/bin")
set(LIBCLANG_PATH "$ENV{LIBCLANG_PATH}" CACHE STRING
  "libclang, or the folder that holds it, for bindgen; empty to search")

set(AMDGPU_RS_DEVICE_BINARY_TARGETS "default" CACHE STRING
  "Targets of the driver's own kernels: processors, generic targets, families")
set(AMDGPU_RS_DEVICE_BINARY_BUILD_MODE "prebuilt" CACHE STRING
  "Where the driver's own kernels come from: prebuilt or source")
set_property(CACHE AMDGPU_RS_DEVICE_BINARY_BUILD_MODE
  PROPERTY STRINGS "prebuilt" "source")
set(AMDGPU_RS_DEVICE_TOOLCHAIN "clang-22" CACHE STRING
  "Compiler of mode source: clang-22, rocm, rocm:<folder> or zig")
include("${CMAKE_CURRENT_LIST_DIR}/../device-binaries/selection.cmake")

set(_IREE_CONFIG "${CMAKE_CURRENT_BINARY_DIR}/iree_config.txt")
amdgpu_rs_write_iree_config("${IREE_SOURCE_DIR}" "${_IREE_CONFIG}")

set(AMDGPU_RS_RUST_TARGET "" CACHE STRING
  "Rust's name of the platform to build for; empty for CMake's")

# The platform that CMake compiles for, as Rust names it.
function(amdgpu_rs_rust_target _RESULT)
  # A compiler for several platforms is told which by CMAKE_C_COMPILER_TARGET.
  string(REGEX MATCH "^[^-]+" _PROCESSOR "${CMAKE_C_COMPILER_TARGET}")
  if(NOT _PROCESSOR)
    set(_PROCESSOR "${CMAKE_SYSTEM_PROCESSOR}")
  endif()
  string(TOLOWER "${_PROCESSOR}" _PROCESSOR)
  if(_PROCESSOR MATCHES "^(x86_64|amd64)$")
    set(_PROCESSOR x86_64)
  elseif(_PROCESSOR MATCHES "^(aarch64|arm64)$")
    set(_PROCESSOR aarch64)
  elseif(_PROCESSOR STREQUAL "riscv64")
    set(_PROCESSOR riscv64gc)
  else()
    set(_PROCESSOR "")
  endif()
  if(NOT _PROCESSOR OR NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
    message(FATAL_ERROR
      "amdgpu_rs: Rust's name of the platform '${CMAKE_SYSTEM_NAME}' on "
      "'${CMAKE_SYSTEM_PROCESSOR}' is not known; set AMDGPU_RS_RUST_TARGET to "
      "one that `rustc --print target-list` has")
  endif()
  set(${_RESULT} "${_PROCESSOR}-unknown-linux-gnu" PARENT_SCOPE)
endfunction()

set(_TRIPLE "${AMDGPU_RS_RUST_TARGET}")
# A compiler that is told another processor crosses, whether or not a toolchain
# file says so by CMAKE_SYSTEM_NAME.
string(REGEX MATCH "^[^-]+" _COMPILED_FOR "${CMAKE_C_COMPILER_TARGET}")
if(NOT _COMPILED_FOR)
  set(_COMPILED_FOR "${CMAKE_SYSTEM_PROCESSOR}")
endif()
if(NOT _TRIPLE AND (CMAKE_CROSSCOMPILING
    OR NOT _COMPILED_FOR STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR))
  amdgpu_rs_rust_target(_TRIPLE)
endif()

include("${CMAKE_CURRENT_LIST_DIR}/versions.cmake")
amdgpu_rs_check_rust("${AMDGPU_RS_CARGO}"
  "${CMAKE_CURRENT_SOURCE_DIR}/Cargo.toml" "${_TRIPLE}")

set(_CARGO_DIR "${CMAKE_CURRENT_BINARY_DIR}/cargo")
set(_CARGO_ARGS)
set(_CARGO_ENV
  "CARGO_TARGET_DIR=${_CARGO_DIR}"
  "AMDGPU_RS_IREE_CONFIG=${_IREE_CONFIG}"
  "AMDGPU_RS_DEVICE_BINARY_TARGETS=${_DEVICE_BINARY_TARGETS}"
  "AMDGPU_RS_DEVICE_BINARY_BUILD_MODE=${AMDGPU_RS_DEVICE_BINARY_BUILD_MODE}"
  "AMDGPU_RS_DEVICE_TOOLCHAIN=${AMDGPU_RS_DEVICE_TOOLCHAIN}")
# With a named platform these are that one's, and build scripts, which run
# here, have the compiler that they find.
set(_SUFFIX)
if(_TRIPLE)
  string(REPLACE "-" "_" _SUFFIX "_${_TRIPLE}")
endif()
list(APPEND _CARGO_ENV
  "CC${_SUFFIX}=${CMAKE_C_COMPILER}"
  "AR${_SUFFIX}=${CMAKE_AR}")
set(_C_FLAGS)
if(CMAKE_C_COMPILER_TARGET)
  list(APPEND _C_FLAGS "--target=${CMAKE_C_COMPILER_TARGET}")
endif()
if(CMAKE_SYSROOT)
  list(APPEND _C_FLAGS "--sysroot=${CMAKE_SYSROOT}")
  list(APPEND _CARGO_ENV
    "BINDGEN_EXTRA_CLANG_ARGS${_SUFFIX}=--sysroot=${CMAKE_SYSROOT}")
endif()
if(_C_FLAGS)
  list(JOIN _C_FLAGS " " _C_FLAGS)
  list(APPEND _CARGO_ENV "CFLAGS${_SUFFIX}=${_C_FLAGS}")
endif()
if(LIBCLANG_PATH)
  list(APPEND _CARGO_ENV "LIBCLANG_PATH=${LIBCLANG_PATH}")
endif()

# With a sanitizer in IREE's C code the driver has it too. rustc counts that as
# unstable. Naming the platform keeps cargo's build scripts free of it. For
# ThreadSanitizer, which has to see all locks, Rust's standard library is built
# from its sources (rustup component add rust-src); for AddressSanitizer it is
# as it was installed.
if(IREE_ENABLE_ASAN)
  set(_SANITIZER address)
elseif(IREE_ENABLE_TSAN)
  set(_SANITIZER thread)
endif()
if(_SANITIZER)
  if(NOT _TRIPLE)
    set(_TRIPLE x86_64-unknown-linux-gnu)
  endif()
  list(APPEND _CARGO_ENV
    "RUSTC_BOOTSTRAP=1"
    "RUSTFLAGS=-Zsanitizer=${_SANITIZER} -Cunsafe-allow-abi-mismatch=sanitizer -Cforce-frame-pointers=yes")
endif()
if(IREE_ENABLE_TSAN)
  list(APPEND _CARGO_ARGS -Zbuild-std)
endif()
# Calls between the driver's crates shall cost no more than calls in one crate
# (docs/design/architecture.md). A sanitizer's cost is far above that.
if(NOT _SANITIZER)
  list(APPEND _CARGO_ENV "CARGO_PROFILE_RELEASE_LTO=fat")
endif()
if(_TRIPLE)
  list(APPEND _CARGO_ARGS --target ${_TRIPLE})
  set(_CARGO_RELEASE "${_CARGO_DIR}/${_TRIPLE}/release")
else()
  set(_CARGO_RELEASE "${_CARGO_DIR}/release")
endif()
set(_LIBRARY "${_CARGO_RELEASE}/libamdgpu_rs.a")

add_custom_command(
  OUTPUT
    "${_LIBRARY}"
  COMMAND
    "${CMAKE_COMMAND}" -E env ${_CARGO_ENV}
    # Cargo.lock stays as it is in the user's tree.
    "${AMDGPU_RS_CARGO}" rustc --quiet --locked --release
      --lib --crate-type staticlib
      --manifest-path "${CMAKE_CURRENT_SOURCE_DIR}/Cargo.toml"
      --package amdgpu_rs ${_CARGO_ARGS}
  DEPENDS
    "${_IREE_CONFIG}"
    "${CMAKE_CURRENT_SOURCE_DIR}/Cargo.toml"
    "${CMAKE_CURRENT_SOURCE_DIR}/Cargo.lock"
  # Every source, build script and header of this repository that cargo used.
  DEPFILE
    "${_CARGO_RELEASE}/libamdgpu_rs.d"
  COMMENT
    "Building the amdgpu_rs driver with cargo"
  VERBATIM
)
add_custom_target(amdgpu_rs_cargo DEPENDS "${_LIBRARY}")
