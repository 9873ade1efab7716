# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The file that a release keeps beside its library (see amdgpu_rs_check_iree_headers):
#   cmake -DIREE_SOURCE_DIR=<tree> -DOUTPUT=<file> -P write_iree_headers.cmake

cmake_minimum_required(VERSION 3.26)
include("${CMAKE_CURRENT_LIST_DIR}/iree_headers.cmake")

amdgpu_rs_digest_iree_headers("${IREE_SOURCE_DIR}" _DIGEST)
file(READ "${IREE_SOURCE_DIR}/runtime/version.json" _JSON)
string(JSON _VERSION GET "${_JSON}" package-version)
file(WRITE "${OUTPUT}" "${_DIGEST}\n${_VERSION}\n")
