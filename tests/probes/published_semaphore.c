// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A host call whose semaphore is advanced beside the driver's functions is
// made at once, though the call that is to signal it still runs.
//
// expect publish: OK
// expect[amdgpu_rs] the second call while the first runs: OK -- several of a queue's calls run at a time
// expect[amdgpu] the second call while the first runs: DEADLINE_EXCEEDED -- it makes a queue's calls on one thread
// expect both calls: 2

#include "probe.h"

static iree_atomic_int32_t has_begun, may_end, calls;

static iree_status_t first(void* user_data, const uint64_t args[4], iree_hal_host_call_context_t* context) {
  iree_atomic_store(&has_begun, 1, iree_memory_order_release);
  while (!iree_atomic_load(&may_end, iree_memory_order_acquire)) usleep(1000);
  iree_atomic_fetch_add(&calls, 1, iree_memory_order_release);
  return iree_ok_status();
}

static iree_status_t second(void* user_data, const uint64_t args[4], iree_hal_host_call_context_t* context) {
  iree_atomic_fetch_add(&calls, 1, iree_memory_order_release);
  return iree_ok_status();
}

PROBE(published_semaphore) {
  probe_device_t device = probe_open(NULL);
  iree_hal_semaphore_t* between = probe_semaphore(device.device);
  iree_hal_semaphore_t* done = probe_semaphore(device.device);
  const uint64_t arguments[4] = {0};
  REQUIRE(iree_hal_device_queue_host_call(device.device, 1, NONE, AT(between, 1), iree_hal_make_host_call(first, NULL),
                                          arguments, IREE_HAL_HOST_CALL_FLAG_NONE));
  while (!iree_atomic_load(&has_begun, iree_memory_order_acquire)) usleep(100);
  REQUIRE(iree_hal_device_queue_host_call(device.device, 1, AT(between, 1), AT(done, 1),
                                          iree_hal_make_host_call(second, NULL), arguments,
                                          IREE_HAL_HOST_CALL_FLAG_NONE));
  fact_status("publish", iree_async_semaphore_publish_untainted((iree_async_semaphore_t*)between, 1, NULL));
  fact_status("the second call while the first runs",
              iree_hal_semaphore_wait(done, 1, iree_make_timeout_ms(2000), IREE_ASYNC_WAIT_FLAG_NONE));
  iree_atomic_store(&may_end, 1, iree_memory_order_release);
  while (iree_atomic_load(&calls, iree_memory_order_acquire) < 2) usleep(1000);
  fact("both calls", "%d", iree_atomic_load(&calls, iree_memory_order_acquire));
  // The first call signals a value that is reached already, which is its error.
  IREE_IGNORE_ERROR(WAIT(done, 1));
  iree_hal_semaphore_release(between);
  iree_hal_semaphore_release(done);
  probe_close(&device);
}
