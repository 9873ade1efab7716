// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A recording that finds no more memory says so, and the process and the device go on.
//
// expect record: RESOURCE_EXHAUSTED
// expect work afterwards: OK

#include "probe.h"

#include <sys/resource.h>

PROBE(out_of_memory) {
  probe_device_t device = probe_open(NULL);
  iree_hal_executable_t* kernels = probe_kernels(device.device);
  iree_hal_executable_function_t function = probe_function(kernels, "report");
  iree_hal_buffer_t* target = probe_buffer(device.device, 64);
  iree_hal_semaphore_t* done = probe_semaphore(device.device);
  // Threads and the objects of the first dispatch exist before memory is scarce.
  const uint32_t value = 1;
  REQUIRE(probe_dispatch(device.device, 1, NONE, AT(done, 1), kernels, "report", target, 1, &value));
  REQUIRE(WAIT(done, 1));

  iree_hal_command_buffer_t* recording = NULL;
  REQUIRE(iree_hal_command_buffer_create(device.device, IREE_HAL_COMMAND_BUFFER_MODE_DEFAULT,
                                         IREE_HAL_COMMAND_CATEGORY_ANY, 1, 1, &recording));
  REQUIRE(iree_hal_command_buffer_begin(recording));
  // 256 MiB more than there is now.
  struct rlimit before, limit;
  getrlimit(RLIMIT_AS, &before);
  long pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld", &pages) != 1) REQUIRE(iree_make_status(IREE_STATUS_INTERNAL, "no statm"));
  fclose(file);
  limit = before;
  limit.rlim_cur = (rlim_t)pages * sysconf(_SC_PAGESIZE) + (256u << 20);
  setrlimit(RLIMIT_AS, &limit);
  iree_hal_dispatch_config_t config = iree_hal_make_static_dispatch_config(1, 1, 1);
  iree_hal_buffer_ref_t ref = iree_hal_make_indirect_buffer_ref(0, 0, 64);
  iree_status_t status = iree_ok_status();
  for (int i = 0; i < 100000000 && iree_status_is_ok(status); ++i) {
    status = iree_hal_command_buffer_dispatch(recording, kernels, function, config,
                                              iree_make_const_byte_span(&value, sizeof(value)),
                                              (iree_hal_buffer_ref_list_t){1, &ref}, IREE_HAL_DISPATCH_FLAG_NONE);
  }
  fact_status("record", status);
  iree_hal_command_buffer_release(recording);
  setrlimit(RLIMIT_AS, &before);

  status = probe_dispatch(device.device, 1, NONE, AT(done, 2), kernels, "report", target, 1, &value);
  if (iree_status_is_ok(status)) status = WAIT(done, 2);
  fact_status("work afterwards", status);
  iree_hal_semaphore_release(done);
  iree_hal_buffer_release(target);
  iree_hal_executable_release(kernels);
  probe_close(&device);
}
