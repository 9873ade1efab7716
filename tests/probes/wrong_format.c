// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Code is loaded by the format that it is said to have, for the queues that
// are named.
//
// expect the format seen: gfx1100
// expect by the format seen: OK
// expect rocm-hsaco-fb: INCOMPATIBLE
// expect gfx942: INCOMPATIBLE
// expect amdgcn-amd-amdhsa--gfx942: INCOMPATIBLE
// expect gfx1100: OK
// expect nonsense: INCOMPATIBLE
// expect for a queue that there is not: INVALID_ARGUMENT

#include "probe.h"

PROBE(wrong_format) {
  static const char* const formats[] = {"rocm-hsaco-fb", "gfx942", "amdgcn-amd-amdhsa--gfx942", "gfx1100", "nonsense"};
  probe_device_t device = probe_open(NULL);
  iree_byte_span_t code = probe_code("kernels.co");
  iree_hal_executable_cache_t* cache = NULL;
  REQUIRE(iree_hal_executable_cache_create(device.device, IREE_SV("probe"), &cache));
  char seen[128] = "";
  iree_host_size_t size = 0;
  REQUIRE(iree_hal_executable_cache_infer_format(cache, 0, iree_make_const_byte_span(code.data, code.data_length),
                                                 sizeof(seen), seen, &size));
  fact("the format seen", "%s", seen);
  iree_hal_executable_t* executable = NULL;
  fact_status("by the format seen", probe_load(device.device, code, seen, &executable));
  iree_hal_executable_release(executable);
  for (size_t i = 0; i < IREE_ARRAYSIZE(formats); ++i) {
    executable = NULL;
    fact_status(formats[i], probe_load(device.device, code, formats[i], &executable));
    iree_hal_executable_release(executable);
  }
  iree_hal_executable_params_t params;
  iree_hal_executable_params_initialize(&params);
  params.executable_format = iree_make_cstring_view(seen);
  params.executable_data = iree_make_const_byte_span(code.data, code.data_length);
  params.queue_affinity = (iree_hal_queue_affinity_t)1 << 40;
  executable = NULL;
  fact_status("for a queue that there is not", iree_hal_executable_cache_prepare_executable(cache, &params, &executable));
  iree_hal_executable_release(executable);
  iree_hal_executable_cache_release(cache);
  free(code.data);
  probe_close(&device);
}
