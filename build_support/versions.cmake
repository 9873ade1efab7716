# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Checks that come before the build, so that a wrong version is named as such.

# Fails where the IREE in `iree_source_dir` is older than 3.12: its HAL has
# other interfaces.
function(amdgpu_rs_check_iree iree_source_dir)
  set(_FILE "${iree_source_dir}/runtime/version.json")
  if(NOT EXISTS "${_FILE}")
    message(FATAL_ERROR
      "amdgpu_rs: ${iree_source_dir} is no IREE checkout: it has no "
      "runtime/version.json")
  endif()
  file(READ "${_FILE}" _JSON)
  string(JSON _VERSION ERROR_VARIABLE _ERROR GET "${_JSON}" package-version)
  # 3.13.0.dev counts as 3.13.0.
  string(REGEX MATCH "^[0-9]+\\.[0-9]+(\\.[0-9]+)?" _NUMBER "${_VERSION}")
  if(_ERROR OR _NUMBER STREQUAL "")
    message(FATAL_ERROR "amdgpu_rs: ${_FILE} states no package-version")
  endif()
  if(_NUMBER VERSION_LESS 3.12)
    message(FATAL_ERROR
      "amdgpu_rs needs IREE 3.12 or newer, and ${iree_source_dir} is IREE "
      "${_VERSION}. Check out a newer release, such as v3.13.0.")
  endif()
endfunction()

# Fails where the cargo of `cargo` is older than the version that `manifest`
# asks for, or has no standard library for the platform `triple` (empty: the
# one it runs on).
function(amdgpu_rs_check_rust cargo manifest triple)
  file(STRINGS "${manifest}" _LINE REGEX "^rust-version = ")
  string(REGEX MATCH "[0-9]+\\.[0-9]+(\\.[0-9]+)?" _WANTED "${_LINE}")
  execute_process(COMMAND "${cargo}" --version
    OUTPUT_VARIABLE _TEXT ERROR_VARIABLE _ERROR RESULT_VARIABLE _RESULT
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REGEX MATCH "[0-9]+\\.[0-9]+(\\.[0-9]+)?" _FOUND "${_TEXT}")
  if(NOT _RESULT EQUAL 0 OR _FOUND STREQUAL "")
    message(FATAL_ERROR
      "amdgpu_rs: `${cargo} --version` does not state a version: "
      "${_TEXT}${_ERROR}")
  endif()
  if(_FOUND VERSION_LESS _WANTED)
    message(FATAL_ERROR
      "amdgpu_rs needs Rust ${_WANTED} or newer, and ${cargo} is ${_FOUND}. "
      "`rustup update stable` installs a newer one; AMDGPU_RS_CARGO names "
      "another cargo.")
  endif()
  if(triple STREQUAL "")
    return()
  endif()
  cmake_path(GET cargo PARENT_PATH _FOLDER)
  find_program(_RUSTC rustc HINTS "${_FOLDER}" NO_CACHE)
  if(NOT _RUSTC)
    return()
  endif()
  execute_process(COMMAND "${_RUSTC}" --print target-libdir --target "${triple}"
    OUTPUT_VARIABLE _LIBRARIES ERROR_VARIABLE _ERROR RESULT_VARIABLE _RESULT
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT _RESULT EQUAL 0 OR NOT EXISTS "${_LIBRARIES}")
    message(FATAL_ERROR
      "amdgpu_rs: Rust has no standard library for ${triple} here. "
      "`rustup target add ${triple}` installs it. ${_ERROR}")
  endif()
endfunction()
