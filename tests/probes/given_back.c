// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A recording that names queue-allocated memory which was given back does not
// write into the memory of the new owner.
//
// expect transfer: INVALID_ARGUMENT
// expect transfer reaches the new owner: no
// expect[amdgpu_rs] dispatch: INVALID_ARGUMENT -- as for transfers
// expect[amdgpu_rs] dispatch reaches the new owner: no -- as for transfers
// expect[amdgpu] dispatch: OK -- it takes addresses of dispatches when they are recorded
// expect[amdgpu] dispatch reaches the new owner: yes -- it takes addresses of dispatches when they are recorded

#include "probe.h"

enum { SIZE = 4096 };

static iree_hal_buffer_t* take(iree_hal_device_t* device, iree_hal_semaphore_t* semaphore, uint64_t value) {
  iree_hal_buffer_t* buffer = NULL;
  REQUIRE(iree_hal_device_queue_alloca(device, 1, AT(semaphore, value), AT(semaphore, value + 1), NULL,
                                       probe_device_local(), SIZE, IREE_HAL_ALLOCA_FLAG_NONE, &buffer));
  REQUIRE(WAIT(semaphore, value + 1));
  return buffer;
}

static void try(iree_hal_device_t* device, iree_hal_executable_t* kernels, const char* what) {
  iree_hal_semaphore_t* semaphore = probe_semaphore(device);
  iree_hal_buffer_t* old = take(device, semaphore, 0);
  iree_hal_command_buffer_t* recording = NULL;
  REQUIRE(iree_hal_command_buffer_create(device, IREE_HAL_COMMAND_BUFFER_MODE_DEFAULT,
                                         IREE_HAL_COMMAND_CATEGORY_ANY, 1, 0, &recording));
  REQUIRE(iree_hal_command_buffer_begin(recording));
  const uint32_t pattern = 0xBAD;
  iree_hal_buffer_ref_t ref = iree_hal_make_buffer_ref(old, 0, SIZE);
  if (kernels) {
    iree_hal_dispatch_config_t config = iree_hal_make_static_dispatch_config(1, 1, 1);
    config.workgroup_size[0] = config.workgroup_size[1] = config.workgroup_size[2] = 1;
    REQUIRE(iree_hal_command_buffer_dispatch(recording, kernels, probe_function(kernels, "report"), config,
                                             iree_make_const_byte_span(&pattern, sizeof(pattern)),
                                             (iree_hal_buffer_ref_list_t){1, &ref}, IREE_HAL_DISPATCH_FLAG_NONE));
  } else {
    REQUIRE(iree_hal_command_buffer_fill_buffer(recording, ref, &pattern, sizeof(pattern), IREE_HAL_FILL_FLAG_NONE));
  }
  REQUIRE(iree_hal_command_buffer_end(recording));
  REQUIRE(iree_hal_device_queue_dealloca(device, 1, NONE, AT(semaphore, 2), old, IREE_HAL_DEALLOCA_FLAG_NONE));

  // The same size on the same queue takes the same memory.
  iree_hal_buffer_t* new = take(device, semaphore, 2);
  const uint32_t good = 7;
  REQUIRE(iree_hal_device_queue_fill(device, 1, NONE, AT(semaphore, 4), new, 0, SIZE, &good, sizeof(good),
                                     IREE_HAL_FILL_FLAG_NONE));
  REQUIRE(WAIT(semaphore, 4));
  iree_hal_semaphore_t* done = probe_semaphore(device);
  iree_status_t status =
      iree_hal_device_queue_execute(device, 1, NONE, AT(done, 1), recording, iree_hal_buffer_binding_table_empty(),
                                    IREE_HAL_EXECUTE_FLAG_NONE);
  if (iree_status_is_ok(status)) status = WAIT(done, 1);
  fact_status(what, status);

  iree_hal_buffer_t* seen = probe_buffer(device, SIZE);
  REQUIRE(iree_hal_device_queue_copy(device, 1, NONE, AT(semaphore, 5), new, 0, seen, 0, SIZE,
                                     IREE_HAL_COPY_FLAG_NONE));
  REQUIRE(WAIT(semaphore, 5));
  char name[64];
  snprintf(name, sizeof(name), "%s reaches the new owner", what);
  fact_bool(name, probe_read(seen, 0) != good);

  iree_hal_command_buffer_release(recording);
  iree_hal_buffer_release(seen);
  iree_hal_buffer_release(old);
  iree_hal_buffer_release(new);
  iree_hal_semaphore_release(done);
  iree_hal_semaphore_release(semaphore);
}

PROBE(given_back) {
  probe_device_t device = probe_open(NULL);
  iree_hal_executable_t* kernels = probe_kernels(device.device);
  try(device.device, NULL, "transfer");
  try(device.device, kernels, "dispatch");
  iree_hal_executable_release(kernels);
  probe_close(&device);
}
