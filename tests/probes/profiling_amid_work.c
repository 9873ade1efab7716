// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A profiling session that begins and ends while work is in flight, which the
// API does not ask of a driver: the device goes on.
//
// expect end without a session: OK
// expect flush without a session: OK
// expect begin without a sink: INVALID_ARGUMENT
// expect begin: OK
// expect begin again: FAILED_PRECONDITION
// expect flush: OK
// expect end: OK
// expect[amdgpu_rs] it waits for work in flight: yes -- whose events belong to the session
// expect[amdgpu] it waits for work in flight: no -- it relies on an idle device, as the API asks for
// expect the dispatch: OK
// expect it wrote: 7
// expect the sink got something: yes
// expect work afterwards: OK

#include "probe.h"

#include <time.h>

static void* end_session(void* device) {
  fact_status("end", iree_hal_device_profiling_end(device));
  return NULL;
}

PROBE(profiling_amid_work) {
  probe_device_t device = probe_open(NULL);
  iree_hal_semaphore_t* done = probe_semaphore(device.device);
  fact_status("end without a session", iree_hal_device_profiling_end(device.device));
  fact_status("flush without a session", iree_hal_device_profiling_flush(device.device));
  probe_hold_t hold = probe_hold(device.device, 1, AT(done, 1));
  iree_hal_device_profiling_options_t options;
  memset(&options, 0, sizeof(options));
  options.data_families = IREE_HAL_DEVICE_PROFILING_DATA_QUEUE_EVENTS | IREE_HAL_DEVICE_PROFILING_DATA_DISPATCH_EVENTS;
  fact_status("begin without a sink", iree_hal_device_profiling_begin(device.device, &options));
  options.sink = probe_sink();
  fact_status("begin", iree_hal_device_profiling_begin(device.device, &options));
  fact_status("begin again", iree_hal_device_profiling_begin(device.device, &options));
  iree_hal_buffer_t* target = probe_buffer(device.device, 64);
  const uint32_t seven = 7;
  REQUIRE(probe_dispatch(device.device, 1, NONE, AT(done, 2), hold.executable, "report", target, 4, &seven));
  fact_status("flush", iree_hal_device_profiling_flush(device.device));
  pthread_t ending = probe_thread(end_session, device.device);
  struct timespec soon = {0};
  clock_gettime(CLOCK_REALTIME, &soon);
  soon.tv_sec += 1;
  const bool has_ended = pthread_timedjoin_np(ending, NULL, &soon) == 0;
  fact_bool("it waits for work in flight", !has_ended);
  probe_release(&hold);
  if (!has_ended) pthread_join(ending, NULL);
  fact_status("the dispatch", iree_hal_semaphore_wait(done, 2, iree_make_timeout_ms(10000), IREE_ASYNC_WAIT_FLAG_NONE));
  fact("it wrote", "%u", probe_read(target, 6));
  fact_bool("the sink got something", *probe_sink_contents() != 0);
  REQUIRE(probe_dispatch(device.device, 1, NONE, AT(done, 3), hold.executable, "report", target, 4, &seven));
  fact_status("work afterwards",
              iree_hal_semaphore_wait(done, 3, iree_make_timeout_ms(10000), IREE_ASYNC_WAIT_FLAG_NONE));
  probe_free_hold(&hold);
  iree_hal_buffer_release(target);
  iree_hal_semaphore_release(done);
  probe_close(&device);
}
