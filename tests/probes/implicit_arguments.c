// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implicit arguments are where the kernel's metadata says that they are, which
// code object version 4 has elsewhere than 5.
//
// expect[amdgpu_rs] version 4, first words: 0 0 0 0 0 0 -- global offsets
// expect[amdgpu] version 4, first words: 3 1 1 65538 1 0 -- it writes those of version 5 whatever the metadata says
// expect version 5, first words: 3 1 1 65538 1 0
// expect the device works: OK

#include "probe.h"

enum { WORDS = 6 };

static void show(iree_hal_device_t* device, const char* file, const char* name) {
  iree_byte_span_t code = probe_code(file);
  iree_hal_executable_t* executable = NULL;
  REQUIRE(probe_load(device, code, NULL, &executable));
  free(code.data);
  iree_hal_buffer_t* target = probe_buffer(device, 4 * WORDS);
  iree_hal_semaphore_t* done = probe_semaphore(device);
  iree_hal_dispatch_config_t config = iree_hal_make_static_dispatch_config(3, 1, 1);
  config.workgroup_size[0] = 2;
  config.workgroup_size[1] = config.workgroup_size[2] = 1;
  iree_hal_buffer_ref_t ref = iree_hal_make_buffer_ref(target, 0, 4 * WORDS);
  iree_status_t status = iree_hal_device_queue_dispatch(
      device, 1, NONE, AT(done, 1), executable, probe_function(executable, "implicit_words"), config,
      iree_make_const_byte_span(NULL, 0), (iree_hal_buffer_ref_list_t){1, &ref}, IREE_HAL_DISPATCH_FLAG_NONE);
  if (iree_status_is_ok(status)) status = WAIT(done, 1);
  if (iree_status_is_ok(status)) {
    char words[128] = "";
    for (int i = 0; i < WORDS; ++i) {
      snprintf(words + strlen(words), sizeof(words) - strlen(words), "%s%u", i ? " " : "", probe_read(target, i));
    }
    fact(name, "%s", words);
  } else {
    fact_status(name, status);
  }
  iree_hal_semaphore_release(done);
  iree_hal_buffer_release(target);
  iree_hal_executable_release(executable);
}

PROBE(implicit_arguments) {
  probe_device_t device = probe_open(NULL);
  show(device.device, "implicit_v4.co", "version 4, first words");
  show(device.device, "implicit_v5.co", "version 5, first words");
  iree_hal_semaphore_t* done = probe_semaphore(device.device);
  REQUIRE(iree_hal_device_queue_barrier(device.device, 1, NONE, AT(done, 1), IREE_HAL_EXECUTE_FLAG_NONE));
  fact_status("the device works", WAIT(done, 1));
  iree_hal_semaphore_release(done);
  probe_close(&device);
}
