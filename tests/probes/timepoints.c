// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Semaphores and file descriptors: a descriptor that becomes ready when device
// work ends, and device work that waits for a descriptor.
//
// expect export: OK
// expect ready before the kernel's end: 0
// expect ready after it: 1
// expect import: OK
// expect fill before the event: DEADLINE_EXCEEDED
// expect fill after it: OK
// expect filled: 7
// expect import of a HIP event: UNIMPLEMENTED
// expect export as a HIP event: UNIMPLEMENTED

#include <poll.h>
#include <sys/eventfd.h>

#include "probe.h"

PROBE(timepoints) {
  probe_device_t device = probe_open(NULL);
  iree_hal_semaphore_t* done = probe_semaphore(device.device);
  iree_hal_external_timepoint_t exported;
  memset(&exported, 0, sizeof(exported));
  probe_hold_t hold = probe_hold(device.device, 1, AT(done, 1));
  iree_status_t status =
      iree_hal_semaphore_export_timepoint(done, 1, IREE_HAL_QUEUE_AFFINITY_ANY,
                                          IREE_HAL_EXTERNAL_TIMEPOINT_TYPE_ASYNC_PRIMITIVE, 0, &exported);
  const bool is_exported = iree_status_is_ok(status);
  fact_status("export", status);
  if (is_exported) {
    struct pollfd descriptor = {.fd = exported.handle.async_primitive.value.fd, .events = POLLIN};
    fact("ready before the kernel's end", "%d", poll(&descriptor, 1, 50));
    probe_release(&hold);
    fact("ready after it", "%d", poll(&descriptor, 1, 10000));
  } else {
    probe_release(&hold);
  }
  REQUIRE(WAIT(done, 1));
  if (is_exported) close(exported.handle.async_primitive.value.fd);
  probe_free_hold(&hold);

  iree_hal_semaphore_t* gate = probe_semaphore(device.device);
  int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  iree_hal_external_timepoint_t imported;
  memset(&imported, 0, sizeof(imported));
  imported.type = IREE_HAL_EXTERNAL_TIMEPOINT_TYPE_ASYNC_PRIMITIVE;
  imported.handle.async_primitive = iree_async_primitive_from_fd(dup(event));
  status = iree_hal_semaphore_import_timepoint(gate, 1, IREE_HAL_QUEUE_AFFINITY_ANY, imported);
  const bool is_imported = iree_status_is_ok(status);
  fact_status("import", status);
  if (is_imported) {
    iree_hal_buffer_t* target = probe_buffer(device.device, 64);
    const uint32_t seven = 7;
    REQUIRE(iree_hal_device_queue_fill(device.device, 1, AT(gate, 1), AT(done, 2), target, 0, 64, &seven,
                                       sizeof(seven), IREE_HAL_FILL_FLAG_NONE));
    fact_status("fill before the event",
                iree_hal_semaphore_wait(done, 2, iree_make_timeout_ms(50), IREE_ASYNC_WAIT_FLAG_NONE));
    if (eventfd_write(event, 1) != 0) fact("event", "not written");
    fact_status("fill after it",
                iree_hal_semaphore_wait(done, 2, iree_make_timeout_ms(10000), IREE_ASYNC_WAIT_FLAG_NONE));
    fact("filled", "%u", probe_read(target, 0));
    iree_hal_buffer_release(target);
  }
  close(event);
  imported.type = IREE_HAL_EXTERNAL_TIMEPOINT_TYPE_HIP_EVENT;
  fact_status("import of a HIP event",
              iree_hal_semaphore_import_timepoint(gate, 2, IREE_HAL_QUEUE_AFFINITY_ANY, imported));
  fact_status("export as a HIP event",
              iree_hal_semaphore_export_timepoint(gate, 2, IREE_HAL_QUEUE_AFFINITY_ANY,
                                                  IREE_HAL_EXTERNAL_TIMEPOINT_TYPE_HIP_EVENT, 0, &exported));
  iree_hal_semaphore_release(gate);
  iree_hal_semaphore_release(done);
  probe_close(&device);
}
