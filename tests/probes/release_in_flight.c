// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A device that is released while a kernel runs, and while work waits for a
// semaphore that is never advanced.
//
// expect kernel in flight: OK
// expect work behind it: OK
// expect work that waits: CANCELLED
// expect[amdgpu_rs] written: 7 0 -- buffers may outlive their device, as the C driver's may not

#include "probe.h"

static void* end_later(void* data) {
  usleep(50000);
  probe_release(data);
  return NULL;
}

PROBE(release_in_flight) {
  probe_device_t device = probe_open(NULL);
  iree_hal_semaphore_t* done = probe_semaphore(device.device);
  iree_hal_semaphore_t* behind = probe_semaphore(device.device);
  iree_hal_semaphore_t* never = probe_semaphore(device.device);
  iree_hal_semaphore_t* waiting = probe_semaphore(device.device);
  iree_hal_buffer_t* target = probe_buffer(device.device, 64);
  probe_hold_t hold = probe_hold(device.device, 1, AT(done, 1));
  const uint32_t seven = 7, eight = 8;
  REQUIRE(iree_hal_device_queue_fill(device.device, 1, AT(done, 1), AT(behind, 1), target, 0, 32, &seven,
                                     sizeof(seven), IREE_HAL_FILL_FLAG_NONE));
  REQUIRE(iree_hal_device_queue_fill(device.device, 2, AT(never, 1), AT(waiting, 1), target, 32, 32, &eight,
                                     sizeof(eight), IREE_HAL_FILL_FLAG_NONE));
  pthread_t thread = probe_thread(end_later, &hold);
  probe_close(&device);
  const iree_timeout_t limit = iree_make_timeout_ms(10000);
  fact_status("kernel in flight", iree_hal_semaphore_wait(done, 1, limit, IREE_ASYNC_WAIT_FLAG_NONE));
  fact_status("work behind it", iree_hal_semaphore_wait(behind, 1, limit, IREE_ASYNC_WAIT_FLAG_NONE));
  fact_status("work that waits", iree_hal_semaphore_wait(waiting, 1, limit, IREE_ASYNC_WAIT_FLAG_NONE));
  if (probe_is_ours()) fact("written", "%u %u", probe_read(target, 0), probe_read(target, 8));
  pthread_join(thread, NULL);
  if (!probe_is_ours()) {
    // Its remaining work must not outlive its device.
    fflush(stdout);
    _exit(0);
  }
  iree_hal_semaphore_t* semaphores[] = {done, behind, never, waiting};
  for (int i = 0; i < 4; ++i) iree_hal_semaphore_release(semaphores[i]);
  iree_hal_buffer_release(target);
  probe_free_hold(&hold);
}
