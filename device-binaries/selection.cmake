# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Checks AMDGPU_RS_DEVICE_BINARY_TARGETS, selectors separated by semicolons,
# commas or white space. `cmake -DAMDGPU_RS_DEVICE_BINARY_TARGETS=... -P` does
# that alone.

cmake_policy(VERSION 3.21)
include("${CMAKE_CURRENT_LIST_DIR}/selectors.cmake")

# Sets `nearest` to the known selectors that have the longest beginning in
# common with `selector`, at most eight, with commas between them.
function(amdgpu_rs_nearest_selectors selector nearest)
  string(TOLOWER "${selector}" _BEGINNING)
  set(_FOUND)
  while(NOT _FOUND)
    foreach(_KNOWN IN LISTS AMDGPU_RS_DEVICE_BINARY_SELECTORS)
      string(TOLOWER "${_KNOWN}" _LOWER)
      string(FIND "${_LOWER}" "${_BEGINNING}" _PLACE)
      if(_PLACE EQUAL 0)
        list(APPEND _FOUND "${_KNOWN}")
      endif()
    endforeach()
    string(REGEX REPLACE ".$" "" _BEGINNING "${_BEGINNING}")
  endwhile()
  list(SUBLIST _FOUND 0 8 _FOUND)
  list(JOIN _FOUND ", " _FOUND)
  set(${nearest} "${_FOUND}" PARENT_SCOPE)
endfunction()

string(REGEX REPLACE "[,; \t\r\n]+" ";" _SELECTORS "${AMDGPU_RS_DEVICE_BINARY_TARGETS}")
list(REMOVE_ITEM _SELECTORS "")
foreach(_SELECTOR IN LISTS _SELECTORS)
  if(NOT _SELECTOR IN_LIST AMDGPU_RS_DEVICE_BINARY_SELECTORS)
    # Longer than any name.
    string(SUBSTRING "${_SELECTOR}" 0 40 _SELECTOR)
    amdgpu_rs_nearest_selectors("${_SELECTOR}" _NEAREST)
    message(FATAL_ERROR "AMDGPU_RS_DEVICE_BINARY_TARGETS: `${_SELECTOR}` "
      "selects no target of the device library; the nearest names are "
      "${_NEAREST}; device-binaries/README.md lists all")
  endif()
endforeach()
# As cargo's environment takes them.
list(JOIN _SELECTORS "," _DEVICE_BINARY_TARGETS)
