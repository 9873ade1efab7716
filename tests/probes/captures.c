// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Captures by tools, as IREE's tools ask for with --device_capture_tool.
//
// expect begin: UNIMPLEMENTED
// expect end: UNIMPLEMENTED

#include "probe.h"

PROBE(captures) {
  probe_device_t device = probe_open(NULL);
  const iree_hal_device_external_capture_options_t options = {.provider = IREE_SV("renderdoc")};
  fact_status("begin", iree_hal_device_external_capture_begin(device.device, &options));
  fact_status("end", iree_hal_device_external_capture_end(device.device));
  probe_close(&device);
}
