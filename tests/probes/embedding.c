// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program against the C driver's embedding API (embedding/program.h), which
// this driver's header amdgpu_rs/amdgpu_api.h has, too.
//
// expect registered: OK
// expect options of a driver as text: INVALID_ARGUMENT
// expect options of a device as text: INVALID_ARGUMENT
// expect devices: 2
// expect filled by a driver's device: 7
// expect queues on the device: UNIMPLEMENTED
// expect the topology: OK
// expect its name: embedded
// expect its queues: 1
// expect filled by a device without a driver: 7

#include "probe.h"

// Not there in a build without the C driver.
void embedding_of_amdgpu(void) __attribute__((weak));
void embedding_of_amdgpu_rs(void);

PROBE(embedding) {
  if (probe_is_ours()) {
    embedding_of_amdgpu_rs();
  } else if (embedding_of_amdgpu) {
    embedding_of_amdgpu();
  }
}
