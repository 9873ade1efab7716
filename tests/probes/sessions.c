// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each session on a device makes a group of it, as iree_runtime_session_create_with_device does. Work of the first one
// that runs, or waits to, ends as if there were no other, and sessions leave nothing behind.
//
// expect second group: OK
// expect[amdgpu_rs] it waits for running work: no -- the C driver makes its queues again: what runs then never ends
// expect[amdgpu_rs] running work of the first: OK -- as above
// expect deferred work of the first: OK
// expect work of the second: OK
// expect[amdgpu_rs] 100 more groups: OK -- the C driver leaves its queues
// expect[amdgpu_rs] they leave more than 30 MiB: no -- as above
// expect work after them: OK

#include "probe.h"

static iree_status_t work(iree_hal_device_t* device, iree_hal_semaphore_t* gate, iree_hal_semaphore_t* done) {
  return iree_hal_device_queue_barrier(device, IREE_HAL_QUEUE_AFFINITY_ANY, gate ? AT(gate, 1) : NONE, AT(done, 1),
                                       IREE_HAL_EXECUTE_FLAG_NONE);
}

// The fate of work that is submitted now.
static iree_status_t work_now(iree_hal_device_t* device) {
  iree_hal_semaphore_t* done = probe_semaphore(device);
  iree_status_t status = work(device, NULL, done);
  if (iree_status_is_ok(status)) status = WAIT(done, 1);
  iree_hal_semaphore_release(done);
  return status;
}

static iree_hal_device_group_t* second_group;

static void* make_group(void* device) { return probe_group(device, &second_group); }

PROBE(sessions) {
  probe_device_t device = probe_open(NULL);
  iree_hal_semaphore_t* gate = probe_semaphore(device.device);
  iree_hal_semaphore_t* deferred = probe_semaphore(device.device);
  iree_hal_semaphore_t* running = probe_semaphore(device.device);
  REQUIRE(work(device.device, gate, deferred));
  const bool is_ours = probe_is_ours();
  probe_hold_t hold = {NULL, NULL};
  if (is_ours) hold = probe_hold(device.device, 1, AT(running, 1));

  int64_t start = probe_now_ms();
  pthread_t thread = probe_thread(make_group, device.device);
  // A group that waits for the kernel is there only after its release.
  void* status = NULL;
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 5;
  bool waits = pthread_timedjoin_np(thread, &status, &until) != 0;
  if (is_ours) probe_release(&hold);
  if (waits) pthread_join(thread, &status);
  fact_status("second group", status);
  if (is_ours) fact_bool("it waits for running work", waits);
  fprintf(stderr, "the second group took %lld ms\n", (long long)(probe_now_ms() - start));
  if (is_ours) fact_status("running work of the first", WAIT(running, 1));
  REQUIRE(iree_hal_semaphore_signal(gate, 1, NULL));
  fact_status("deferred work of the first", WAIT(deferred, 1));
  fact_status("work of the second", work_now(device.device));

  int64_t before = probe_resident_kib();
  iree_status_t groups = iree_ok_status();
  for (int i = 0; i < 100 && is_ours && iree_status_is_ok(groups); ++i) {
    iree_hal_device_group_t* group = NULL;
    groups = probe_group(device.device, &group);
    iree_hal_device_group_release(group);
  }
  if (is_ours) fact_status("100 more groups", groups);
  if (is_ours) fact_bool("they leave more than 30 MiB", probe_resident_kib() - before > 30 * 1024);
  fact_status("work after them", work_now(device.device));
  // With a second group the C driver crashes when the device ends.
  if (!is_ours) _exit(0);

  if (is_ours) probe_free_hold(&hold);
  iree_hal_device_group_release(second_group);
  iree_hal_semaphore_release(gate);
  iree_hal_semaphore_release(deferred);
  iree_hal_semaphore_release(running);
  probe_close(&device);
}
