// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory that one queue gives back behind work that still runs is not given to
// another queue that does not wait for it, whatever the size that it asks for.
//
// expect[amdgpu_rs] some were overwritten: no -- blocks keep their history
// expect[amdgpu] some were overwritten: yes -- its pool is IREE's TLSF, which gives remainders of freed blocks no
// history

#include "probe.h"

enum { GIVEN = 8192, COUNT = 24 };

PROBE(reuse_across_queues) {
  probe_device_t device = probe_open(NULL);
  int overwritten = 0;
  for (iree_device_size_t size = 256; size <= GIVEN; size += 256) {
    iree_hal_semaphore_t* first = probe_semaphore(device.device);
    iree_hal_semaphore_t* second = probe_semaphore(device.device);
    // Queue 0: allocate, hold, fill with 1 and give back.
    iree_hal_buffer_t* old = NULL;
    const uint32_t one = 1, seven = 7;
    REQUIRE(iree_hal_device_queue_alloca(device.device, 1, NONE, AT(first, 1), NULL, probe_device_local(), GIVEN,
                                         IREE_HAL_ALLOCA_FLAG_NONE, &old));
    REQUIRE(WAIT(first, 1));
    probe_hold_t hold = probe_hold(device.device, 1, AT(first, 2));
    REQUIRE(iree_hal_device_queue_fill(device.device, 1, AT(first, 2), AT(first, 3), old, 0, GIVEN, &one, sizeof(one),
                                       IREE_HAL_FILL_FLAG_NONE));
    REQUIRE(iree_hal_device_queue_dealloca(device.device, 1, AT(first, 3), AT(first, 4), old,
                                           IREE_HAL_DEALLOCA_FLAG_NONE));
    // Queue 1, which waits for nothing of that: allocate and fill with 7.
    iree_hal_buffer_t* others[COUNT];
    for (int i = 0; i < COUNT; ++i) {
      REQUIRE(iree_hal_device_queue_alloca(device.device, 2, NONE, AT(second, 2 * i + 1), NULL, probe_device_local(),
                                           size, IREE_HAL_ALLOCA_FLAG_NONE, &others[i]));
      REQUIRE(iree_hal_device_queue_fill(device.device, 2, AT(second, 2 * i + 1), AT(second, 2 * i + 2), others[i], 0,
                                         size, &seven, sizeof(seven), IREE_HAL_FILL_FLAG_NONE));
    }
    REQUIRE(WAIT(second, 2 * COUNT));
    probe_release(&hold);
    REQUIRE(WAIT(first, 4));
    iree_hal_buffer_t* seen = probe_buffer(device.device, size);
    for (int i = 0; i < COUNT; ++i) {
      REQUIRE(iree_hal_device_queue_copy(device.device, 2, NONE, AT(second, 2 * COUNT + i + 1), others[i], 0, seen, 0,
                                         size, IREE_HAL_COPY_FLAG_NONE));
      REQUIRE(WAIT(second, 2 * COUNT + i + 1));
      bool differs = false;
      for (iree_device_size_t word = 0; word < size / 4; ++word) differs |= probe_read(seen, word) != seven;
      overwritten += differs;
    }
    for (int i = 0; i < COUNT; ++i) {
      REQUIRE(iree_hal_device_queue_dealloca(device.device, 2, NONE, AT(second, 3 * COUNT + i + 1), others[i],
                                             IREE_HAL_DEALLOCA_FLAG_NONE));
      iree_hal_buffer_release(others[i]);
    }
    REQUIRE(WAIT(second, 4 * COUNT));
    iree_hal_buffer_release(old);
    iree_hal_buffer_release(seen);
    probe_free_hold(&hold);
    iree_hal_semaphore_release(first);
    iree_hal_semaphore_release(second);
  }
  fprintf(stderr, "%d allocations were overwritten\n", overwritten);
  fact_bool("some were overwritten", overwritten > 0);
  probe_close(&device);
}
