// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An ACTIVE wait with a time limit sees a kernel end within it, and the limit
// pass before that.
//
// expect before the end: DEADLINE_EXCEEDED
// expect no time at all: DEADLINE_EXCEEDED
// expect within the limit: OK
// expect afterwards: OK

#include "probe.h"

static void* release_soon(void* hold) {
  usleep(30 * 1000);
  probe_release(hold);
  return NULL;
}

PROBE(active_wait) {
  probe_device_t device = probe_open(NULL);
  iree_hal_semaphore_t* done = probe_semaphore(device.device);
  probe_hold_t hold = probe_hold(device.device, 1, AT(done, 1));
  fact_status("before the end",
              iree_hal_semaphore_wait(done, 1, iree_make_timeout_ms(20), IREE_ASYNC_WAIT_FLAG_ACTIVE));
  fact_status("no time at all",
              iree_hal_semaphore_wait(done, 1, iree_immediate_timeout(), IREE_ASYNC_WAIT_FLAG_ACTIVE));
  pthread_t thread = probe_thread(release_soon, &hold);
  fact_status("within the limit",
              iree_hal_semaphore_wait(done, 1, iree_make_timeout_ms(20000), IREE_ASYNC_WAIT_FLAG_ACTIVE));
  pthread_join(thread, NULL);
  fact_status("afterwards", iree_hal_semaphore_wait(done, 1, iree_immediate_timeout(), IREE_ASYNC_WAIT_FLAG_ACTIVE));
  probe_free_hold(&hold);
  iree_hal_semaphore_release(done);
  probe_close(&device);
}
