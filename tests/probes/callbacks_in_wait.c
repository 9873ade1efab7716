// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A thread that waits for one semaphore may hold a lock that the callback of a
// later one takes: callbacks of other semaphores run elsewhere.
//
// expect waits: OK
// expect[amdgpu_rs] the waiting thread ran some of later work: no -- a caller may hold a lock that they take
// expect[amdgpu] the waiting thread ran some of later work: yes -- it drains all that is complete
// expect callbacks: 60

#include "probe.h"

enum { ROUNDS = 60 };

static pthread_t waiting_thread;
static iree_atomic_int32_t called, called_while_waiting, is_waiting;

static void on_later(void* user_data, iree_async_semaphore_timepoint_t* timepoint, iree_status_t status) {
  iree_status_free(status);
  if (pthread_equal(pthread_self(), waiting_thread) && iree_atomic_load(&is_waiting, iree_memory_order_relaxed)) {
    iree_atomic_fetch_add(&called_while_waiting, 1, iree_memory_order_relaxed);
  }
  iree_atomic_fetch_add(&called, 1, iree_memory_order_release);
}

static void* release_soon(void* hold) {
  usleep(2000);
  probe_release(hold);
  return NULL;
}

PROBE(callbacks_in_wait) {
  probe_device_t device = probe_open(NULL);
  waiting_thread = pthread_self();
  iree_status_t status = iree_ok_status();
  for (int round = 0; round < ROUNDS && iree_status_is_ok(status); ++round) {
    iree_hal_semaphore_t* first = probe_semaphore(device.device);
    iree_hal_semaphore_t* later = probe_semaphore(device.device);
    iree_async_semaphore_timepoint_t timepoint = {.callback = on_later};
    REQUIRE(iree_async_semaphore_acquire_timepoint((iree_async_semaphore_t*)later, 1, &timepoint));
    probe_hold_t hold = probe_hold(device.device, 1, AT(first, 1));
    REQUIRE(iree_hal_device_queue_barrier(device.device, 1, AT(first, 1), AT(later, 1), IREE_HAL_EXECUTE_FLAG_NONE));
    pthread_t thread = probe_thread(release_soon, &hold);
    iree_atomic_store(&is_waiting, 1, iree_memory_order_relaxed);
    status = WAIT(first, 1);
    iree_atomic_store(&is_waiting, 0, iree_memory_order_relaxed);
    pthread_join(thread, NULL);
    REQUIRE(WAIT(later, 1));
    // The callback's storage is this round's.
    while (iree_atomic_load(&called, iree_memory_order_acquire) <= round) sched_yield();
    probe_free_hold(&hold);
    iree_hal_semaphore_release(first);
    iree_hal_semaphore_release(later);
  }
  fact_status("waits", status);
  fact_bool("the waiting thread ran some of later work",
            iree_atomic_load(&called_while_waiting, iree_memory_order_relaxed) > 0);
  fact("callbacks", "%d", iree_atomic_load(&called, iree_memory_order_relaxed));
  probe_close(&device);
}
