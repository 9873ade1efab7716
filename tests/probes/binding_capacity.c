// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A recording's memory goes by the bindings that it uses, not by those that it may use.
//
// expect begin: OK
// expect end: OK
// expect it took more than 64 MiB: no

#include "probe.h"

PROBE(binding_capacity) {
  probe_device_t device = probe_open(NULL);
  iree_hal_command_buffer_t* recording = NULL;
  int64_t before = probe_resident_kib();
  REQUIRE(iree_hal_command_buffer_create(device.device, IREE_HAL_COMMAND_BUFFER_MODE_UNVALIDATED,
                                         IREE_HAL_COMMAND_CATEGORY_ANY, 1, (iree_host_size_t)1 << 31, &recording));
  fact_status("begin", iree_hal_command_buffer_begin(recording));
  const uint32_t pattern = 1;
  REQUIRE(iree_hal_command_buffer_fill_buffer(recording, iree_hal_make_indirect_buffer_ref(3, 0, 64), &pattern,
                                              sizeof(pattern), IREE_HAL_FILL_FLAG_NONE));
  fact_status("end", iree_hal_command_buffer_end(recording));
  fact_bool("it took more than 64 MiB", probe_resident_kib() - before > 64 * 1024);
  iree_hal_command_buffer_release(recording);
  probe_close(&device);
}
