// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A driver's device with what the benchmark's cases work on. Everything goes
// through IREE's HAL API, so that it is the same for each driver.

#ifndef AMDGPU_RS_BENCHES_RIG_H_
#define AMDGPU_RS_BENCHES_RIG_H_

#include "iree/base/api.h"
#include "iree/hal/api.h"

// Bytes of each buffer.
#define RIG_BUFFER_SIZE 4096

// A hardware queue and the timeline of what is submitted to it.
typedef struct stream_t {
  iree_hal_queue_affinity_t affinity;
  iree_hal_semaphore_t* semaphore;
  // What the newest submission signals.
  uint64_t value;
} stream_t;

typedef struct rig_t {
  const char* driver;
  iree_hal_device_t* device;
  iree_hal_device_group_t* group;
  // A kernel with two bindings and eight bytes of constants.
  iree_hal_executable_t* executable;
  iree_hal_executable_function_t function;
  iree_hal_buffer_t* buffers[2];
  stream_t streams[2];
  // What is replayed, in the cases that do.
  iree_hal_command_buffer_t* program;
} rig_t;

// Opens the default device of the driver named |driver|, which must be in the
// driver registry, and loads the code object |executable|. Pass |rig|, zeroed,
// to rig_close whatever this returns.
iree_status_t rig_open(const char* driver, iree_const_byte_span_t executable, rig_t* rig);

// Releases all of |rig|, whose queues must be idle.
void rig_close(rig_t* rig);

// Waits for everything that was submitted to |rig|.
iree_status_t rig_wait(const rig_t* rig);

#endif  // AMDGPU_RS_BENCHES_RIG_H_
