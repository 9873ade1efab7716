// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 200 allocations that wait for a pool do not hold up a host call, and get
// their memory when it is free.
//
// expect allocations: OK
// expect the host call meanwhile: OK
// expect it took less than 100 ms of CPU time: yes
// expect all allocations in the end: OK

#include "probe.h"

#include <time.h>

#include "iree/hal/memory/fixed_block_pool.h"

enum { COUNT = 200, SIZE = 4096 };

static iree_status_t call(void* user_data, const uint64_t args[4], iree_hal_host_call_context_t* context) {
  return iree_ok_status();
}

static iree_status_t take(iree_hal_device_t* device, iree_hal_pool_t* pool, iree_hal_semaphore_t* done,
                          iree_hal_buffer_t** out_buffer) {
  return iree_hal_device_queue_alloca(device, 1, NONE, AT(done, 1), pool, probe_device_local(), SIZE,
                                      IREE_HAL_ALLOCA_FLAG_NONE, out_buffer);
}

static iree_status_t give(iree_hal_device_t* device, iree_hal_semaphore_t* done, iree_hal_buffer_t* buffer) {
  return iree_hal_device_queue_dealloca(device, 1, AT(done, 1), AT(done, 2), buffer, IREE_HAL_DEALLOCA_FLAG_NONE);
}

// Milliseconds that the process has computed. Other processes add none.
static int64_t cpu_ms(void) {
  struct timespec time = {0};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

PROBE(waiting_allocations) {
  // The C driver has a place in its io_uring for each that is woken, and ends when those are used up.
  const int count = probe_is_ours() ? COUNT : 40;
  probe_device_t device = probe_open(NULL);
  iree_hal_queue_pool_backend_t backend;
  REQUIRE(iree_hal_device_query_queue_pool_backend(device.device, 1, &backend));
  const iree_hal_fixed_block_pool_options_t options = {
      .block_allocator_options = {.block_size = SIZE, .block_count = 1}};
  iree_hal_pool_t* pool = NULL;
  REQUIRE(iree_hal_fixed_block_pool_create(options, backend.slab_provider, backend.notification, backend.epoch_query,
                                           iree_allocator_system(), &pool));
  // The first takes the only block.
  iree_hal_semaphore_t* done[1 + COUNT];
  iree_hal_buffer_t* buffers[1 + COUNT];
  iree_status_t status = iree_ok_status();
  for (int i = 0; i <= count; ++i) {
    done[i] = probe_semaphore(device.device);
    if (iree_status_is_ok(status)) status = take(device.device, pool, done[i], &buffers[i]);
    if (iree_status_is_ok(status) && i == 0) status = WAIT(done[0], 1);
    if (iree_status_is_ok(status) && i > 0) status = give(device.device, done[i], buffers[i]);
  }
  fact_status("allocations", status);
  iree_hal_semaphore_t* called = probe_semaphore(device.device);
  const uint64_t arguments[4] = {0};
  const int64_t start = cpu_ms();
  REQUIRE(iree_hal_device_queue_host_call(device.device, 2, NONE, AT(called, 1), iree_hal_make_host_call(call, NULL),
                                          arguments, IREE_HAL_HOST_CALL_FLAG_NONE));
  // They wait until the first gives its block back, behind this.
  fact_status("the host call meanwhile",
              iree_hal_semaphore_wait(called, 1, iree_make_timeout_ms(10000), IREE_ASYNC_WAIT_FLAG_NONE));
  const int64_t cpu = cpu_ms() - start;
  fprintf(stderr, "%lld ms of CPU time\n", (long long)cpu);
  fact_bool("it took less than 100 ms of CPU time", cpu < 100);
  REQUIRE(give(device.device, done[0], buffers[0]));
  for (int i = 0; i <= count && iree_status_is_ok(status); ++i) {
    status = iree_hal_semaphore_wait(done[i], 2, iree_make_timeout_ms(30000), IREE_ASYNC_WAIT_FLAG_NONE);
  }
  fact_status("all allocations in the end", status);
  REQUIRE(WAIT(called, 1));
  for (int i = 0; i <= count; ++i) {
    iree_hal_buffer_release(buffers[i]);
    iree_hal_semaphore_release(done[i]);
  }
  iree_hal_semaphore_release(called);
  iree_hal_pool_release(pool);
  probe_close(&device);
}
