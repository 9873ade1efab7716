# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A release's library goes with the IREE headers that it was made from.

# Puts into `out` a digest of the IREE headers that the driver is compiled with.
function(amdgpu_rs_digest_iree_headers iree_source_dir out)
  set(_ROOT "${iree_source_dir}/runtime/src/iree")
  set(_DIGESTS)
  foreach(_FOLDER async base hal io)
    file(GLOB_RECURSE _HEADERS RELATIVE "${_ROOT}" "${_ROOT}/${_FOLDER}/*.h")
    list(SORT _HEADERS)
    foreach(_HEADER ${_HEADERS})
      file(SHA256 "${_ROOT}/${_HEADER}" _DIGEST)
      string(APPEND _DIGESTS "${_DIGEST} ${_HEADER}\n")
    endforeach()
  endforeach()
  string(SHA256 _ALL "${_DIGESTS}")
  set(${out} "${_ALL}" PARENT_SCOPE)
endfunction()

# Fails where a release's library, whose headers' number and IREE version are
# in the file `expected`, is to be linked with another IREE.
function(amdgpu_rs_check_iree_headers iree_source_dir expected)
  file(STRINGS "${expected}" _EXPECTED)
  list(POP_FRONT _EXPECTED _DIGEST _VERSION)
  amdgpu_rs_digest_iree_headers("${iree_source_dir}" _FOUND)
  if(NOT _FOUND STREQUAL _DIGEST)
    message(FATAL_ERROR
      "This release of amdgpu_rs has a library made for the headers of IREE "
      "${_VERSION}, and those of ${iree_source_dir} are others. Build the "
      "driver from its sources: give IREE_CMAKE_PLUGIN_PATHS a checkout of "
      "amdgpu_rs instead.")
  endif()
endfunction()
