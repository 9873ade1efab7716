// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// iree-run-replay repeats a program's calls of a device and says nothing of
// the results. The linker puts these two functions in front of IREE's (its
// option --wrap), so that the unchanged tool keeps the buffers that a replay
// allocates for the host and writes their contents at its end to the file
// $REPLAY_OUTPUTS: in the order of allocation, each as its length in bytes (a
// uint64_t) and these bytes.

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "iree/base/api.h"
#include "iree/hal/api.h"
#include "iree/hal/replay/execute.h"

#define MAX_BUFFERS 1024

static iree_hal_buffer_t* kept[MAX_BUFFERS];
static iree_host_size_t kept_count = 0;

iree_status_t __real_iree_hal_allocator_allocate_buffer(
    iree_hal_allocator_t* allocator, iree_hal_buffer_params_t params,
    iree_device_size_t allocation_size, iree_hal_buffer_t** out_buffer);

iree_status_t __real_iree_hal_replay_execute_file(
    iree_const_byte_span_t file_contents, iree_hal_device_group_t* device_group,
    const iree_hal_replay_execute_options_t* options,
    iree_allocator_t host_allocator);

iree_status_t __wrap_iree_hal_allocator_allocate_buffer(
    iree_hal_allocator_t* allocator, iree_hal_buffer_params_t params,
    iree_device_size_t allocation_size, iree_hal_buffer_t** out_buffer) {
  IREE_RETURN_IF_ERROR(__real_iree_hal_allocator_allocate_buffer(
      allocator, params, allocation_size, out_buffer));
  if (!iree_all_bits_set(params.type, IREE_HAL_MEMORY_TYPE_HOST_LOCAL)) {
    return iree_ok_status();
  }
  if (kept_count == MAX_BUFFERS) {
    return iree_make_status(IREE_STATUS_RESOURCE_EXHAUSTED,
                            "more than %d buffers for the host", MAX_BUFFERS);
  }
  iree_hal_buffer_retain(*out_buffer);
  kept[kept_count++] = *out_buffer;
  return iree_ok_status();
}

static iree_status_t write_buffer(FILE* file, iree_hal_buffer_t* buffer) {
  iree_hal_buffer_mapping_t mapping = {{0}};
  IREE_RETURN_IF_ERROR(iree_hal_buffer_map_range(
      buffer, IREE_HAL_MAPPING_MODE_SCOPED, IREE_HAL_MEMORY_ACCESS_READ, 0,
      IREE_HAL_WHOLE_BUFFER, &mapping));
  uint64_t length = mapping.contents.data_length;
  bool is_written = fwrite(&length, sizeof(length), 1, file) == 1 &&
                    fwrite(mapping.contents.data, 1, length, file) == length;
  iree_status_t status = iree_hal_buffer_unmap_range(&mapping);
  if (!is_written && iree_status_is_ok(status)) {
    status = iree_make_status(IREE_STATUS_DATA_LOSS, "writing the outputs");
  }
  return status;
}

iree_status_t __wrap_iree_hal_replay_execute_file(
    iree_const_byte_span_t file_contents, iree_hal_device_group_t* device_group,
    const iree_hal_replay_execute_options_t* options,
    iree_allocator_t host_allocator) {
  iree_status_t status = __real_iree_hal_replay_execute_file(
      file_contents, device_group, options, host_allocator);
  const char* path = getenv("REPLAY_OUTPUTS");
  FILE* file = iree_status_is_ok(status) && path ? fopen(path, "wb") : NULL;
  if (iree_status_is_ok(status) && !file) {
    status = iree_make_status(IREE_STATUS_INVALID_ARGUMENT,
                              "REPLAY_OUTPUTS names no file to write");
  }
  for (iree_host_size_t i = 0; i < kept_count; ++i) {
    if (iree_status_is_ok(status)) status = write_buffer(file, kept[i]);
    iree_hal_buffer_release(kept[i]);
  }
  kept_count = 0;
  if (file && fclose(file) != 0 && iree_status_is_ok(status)) {
    status = iree_make_status(IREE_STATUS_DATA_LOSS, "closing %s", path);
  }
  return status;
}
