// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A pool of the application's own, of two blocks, for two queues: a third
// allocation waits until a block is given back, and for its last use.
//
// expect first and second on two queues: OK
// expect third while both are used: DEADLINE_EXCEEDED
// expect third afterwards: OK
// expect last word: 7

#include "iree/hal/memory/fixed_block_pool.h"
#include "probe.h"

enum { SIZE = 4096 };

PROBE(own_pool) {
  probe_device_t device = probe_open(NULL);
  iree_hal_queue_pool_backend_t backend;
  REQUIRE(iree_hal_device_query_queue_pool_backend(device.device, 3, &backend));
  iree_hal_fixed_block_pool_options_t options;
  memset(&options, 0, sizeof(options));
  options.block_allocator_options.block_size = SIZE;
  options.block_allocator_options.block_count = 2;
  options.block_allocator_options.frontier_capacity = 4;
  iree_hal_pool_t* pool = NULL;
  REQUIRE(iree_hal_fixed_block_pool_create(options, backend.slab_provider, backend.notification, backend.epoch_query,
                                           iree_allocator_system(), &pool));
  iree_hal_semaphore_t* ready = probe_semaphore(device.device);
  iree_hal_buffer_t* buffers[3] = {NULL, NULL, NULL};
  iree_status_t status = iree_ok_status();
  for (int i = 0; i < 2 && iree_status_is_ok(status); ++i) {
    status = iree_hal_device_queue_alloca(device.device, 1 << i, NONE, AT(ready, i + 1), pool, probe_device_local(),
                                          SIZE, IREE_HAL_ALLOCA_FLAG_NONE, &buffers[i]);
    if (iree_status_is_ok(status)) status = WAIT(ready, i + 1);
  }
  fact_status("first and second on two queues", status);

  // All blocks are in use until the first is given back.
  iree_hal_semaphore_t* third = probe_semaphore(device.device);
  status = iree_hal_device_queue_alloca(device.device, 2, NONE, AT(third, 1), pool, probe_device_local(), SIZE,
                                        IREE_HAL_ALLOCA_FLAG_ALLOW_POOL_WAIT_FRONTIER, &buffers[2]);
  if (iree_status_is_ok(status)) {
    status = iree_hal_semaphore_wait(third, 1, iree_make_timeout_ms(100), IREE_ASYNC_WAIT_FLAG_NONE);
  }
  fact_status("third while both are used", status);
  REQUIRE(iree_hal_device_queue_dealloca(device.device, 1, NONE, AT(ready, 3), buffers[0],
                                         IREE_HAL_DEALLOCA_FLAG_NONE));
  REQUIRE(WAIT(ready, 3));
  if (buffers[2]) {
    fact_status("third afterwards",
                iree_hal_semaphore_wait(third, 1, iree_make_timeout_ms(10000), IREE_ASYNC_WAIT_FLAG_NONE));
  }
  // A buffer of one queue is written by the other.
  iree_hal_buffer_t* seen = probe_buffer(device.device, SIZE);
  const uint32_t seven = 7;
  REQUIRE(iree_hal_device_queue_fill(device.device, 1, NONE, AT(ready, 4), buffers[2], 0, SIZE, &seven, sizeof(seven),
                                     IREE_HAL_FILL_FLAG_NONE));
  REQUIRE(iree_hal_device_queue_copy(device.device, 2, AT(ready, 4), AT(ready, 5), buffers[2], 0, seen, 0, SIZE,
                                     IREE_HAL_COPY_FLAG_NONE));
  REQUIRE(WAIT(ready, 5));
  fact("last word", "%u", probe_read(seen, SIZE / 4 - 1));
  for (int i = 0; i < 3; ++i) iree_hal_buffer_release(buffers[i]);
  iree_hal_buffer_release(seen);
  iree_hal_semaphore_release(third);
  iree_hal_semaphore_release(ready);
  iree_hal_pool_release(pool);
  probe_close(&device);
}
