// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Code and recordings of another logical device, for another GPU, are refused, and the device goes on.
//
// agents: gfx1100,gfx1100
//
// expect executable: INVALID_ARGUMENT
// expect command buffer: INVALID_ARGUMENT
// expect[amdgpu_rs] buffer: OK -- GPUs get access to each other's memory
// expect[amdgpu] buffer: INVALID_ARGUMENT -- its queue has stopped
// expect[amdgpu_rs] the device works: OK -- nothing of them reached a queue
// expect[amdgpu] the device works: INVALID_ARGUMENT -- the first of them stopped its queue
// expect the other one works: OK

#include "probe.h"

static iree_status_t outcome(iree_status_t status, iree_hal_semaphore_t* done, uint64_t value) {
  return iree_status_is_ok(status) ? WAIT(done, value) : status;
}

static iree_status_t fill(iree_hal_device_t* device, iree_hal_buffer_t* target) {
  iree_hal_semaphore_t* done = probe_semaphore(device);
  const uint32_t pattern = 1;
  iree_status_t status = outcome(iree_hal_device_queue_fill(device, 1, NONE, AT(done, 1), target, 0, 64, &pattern,
                                                            sizeof(pattern), IREE_HAL_FILL_FLAG_NONE),
                                 done, 1);
  iree_hal_semaphore_release(done);
  return status;
}

PROBE(foreign_objects) {
  probe_device_t own = {NULL, NULL}, other = {NULL, NULL};
  REQUIRE(probe_create("0", NULL, &own.device));
  REQUIRE(probe_group(own.device, &own.group));
  REQUIRE(probe_create("1", NULL, &other.device));
  REQUIRE(probe_group(other.device, &other.group));
  iree_hal_buffer_t* target = probe_buffer(own.device, 64);
  iree_hal_buffer_t* others = NULL;
  REQUIRE(iree_hal_allocator_allocate_buffer(iree_hal_device_allocator(other.device), probe_device_local(), 64,
                                             &others));
  iree_hal_executable_t* kernels = probe_kernels(other.device);
  iree_hal_semaphore_t* done = probe_semaphore(own.device);

  const uint32_t value = 1;
  fact_status("executable", outcome(probe_dispatch(own.device, 1, NONE, AT(done, 1), kernels, "report", target, 1, &value),
                                    done, 1));
  iree_hal_semaphore_release(done);

  done = probe_semaphore(own.device);
  iree_hal_command_buffer_t* recording = NULL;
  REQUIRE(iree_hal_command_buffer_create(other.device, IREE_HAL_COMMAND_BUFFER_MODE_DEFAULT,
                                         IREE_HAL_COMMAND_CATEGORY_ANY, 1, 0, &recording));
  REQUIRE(iree_hal_command_buffer_begin(recording));
  REQUIRE(iree_hal_command_buffer_fill_buffer(recording, iree_hal_make_buffer_ref(others, 0, 64), &value, sizeof(value),
                                              IREE_HAL_FILL_FLAG_NONE));
  REQUIRE(iree_hal_command_buffer_end(recording));
  fact_status("command buffer",
              outcome(iree_hal_device_queue_execute(own.device, 1, NONE, AT(done, 1), recording,
                                                    iree_hal_buffer_binding_table_empty(), IREE_HAL_EXECUTE_FLAG_NONE),
                      done, 1));
  fact_status("buffer", fill(own.device, others));
  fact_status("the device works", fill(own.device, target));
  fact_status("the other one works", fill(other.device, others));

  iree_hal_command_buffer_release(recording);
  iree_hal_semaphore_release(done);
  iree_hal_executable_release(kernels);
  iree_hal_buffer_release(others);
  iree_hal_buffer_release(target);
  probe_close(&own);
  probe_close(&other);
}
