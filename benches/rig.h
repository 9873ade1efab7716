// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A driver's device with the objects of the benchmark's cases. Everything goes
// through IREE's HAL API, so that it is the same for each driver.

#ifndef AMDGPU_RS_BENCHES_RIG_H_
#define AMDGPU_RS_BENCHES_RIG_H_

#include "iree/base/api.h"
#include "iree/hal/api.h"
#include "iree/vm/api.h"

enum {
  RIG_STREAMS = 8,
  RIG_BUFFERS = 64,
  // Bytes of each of the buffers, and of each of the large ones.
  RIG_BUFFER_SIZE = 4096,
  RIG_LARGE_BUFFER_SIZE = 1 << 20,
};

// A hardware queue and the timeline of its submissions.
typedef struct stream_t {
  iree_hal_queue_affinity_t affinity;
  iree_hal_semaphore_t* semaphore;
  // The value that the newest submission signals.
  uint64_t value;
} stream_t;

typedef struct rig_t {
  const char* driver;
  // Where the kernels and the models are.
  const char* folder;
  // Hardware queues on each GPU; the driver's default if 0.
  uint32_t queues;
  iree_hal_device_t* device;
  iree_hal_device_group_t* group;
  // Data families that the device is profiled for; none without a profile.
  iree_hal_device_profiling_data_families_t profiled;
  // The kernels of kernels.cl, and the one in use.
  iree_hal_executable_t* executable;
  iree_hal_executable_function_t function;
  iree_hal_buffer_t* buffers[RIG_BUFFERS];
  iree_hal_buffer_t* large_buffers[2];
  stream_t streams[RIG_STREAMS];
  // The command buffer of the cases that replay one.
  iree_hal_command_buffer_t* program;
  // The model that is called, in the cases that do, with its arguments but for the fences, and room for results.
  iree_vm_instance_t* instance;
  iree_vm_context_t* context;
  iree_vm_function_t model;
  iree_hal_buffer_view_t* model_inputs[2];
  iree_vm_list_t* arguments;
  iree_vm_list_t* results;
} rig_t;

// Opens the default device of the driver named |driver|, which must be in the
// driver registry, and loads |folder|'s kernels. Pass |rig|, zeroed but for its number of queues, to
// rig_close whatever this returns. Both strings must outlive it.
iree_status_t rig_open(const char* driver, const char* folder, rig_t* rig);

// Allocates the buffers.
iree_status_t rig_make_buffers(rig_t* rig);

// Takes the kernel with so many |bindings|, and spreads streams over so many |queues|. If the device has fewer it
// becomes another one, and its queues must be idle.
iree_status_t rig_use(rig_t* rig, uint32_t bindings, uint32_t queues);

// Has the device profiled for |families| and no others, or not at all. Profile data is discarded. Queues must be
// idle.
iree_status_t rig_profile(rig_t* rig, iree_hal_device_profiling_data_families_t families);

// Writes the profile data of finished work, if there is a profile.
iree_status_t rig_flush(rig_t* rig);

// Loads |folder|'s module `chain-<dispatches>.vmfb` in the place of any other.
iree_status_t rig_load_model(rig_t* rig, uint32_t dispatches);

// Releases all of |rig|, whose queues must be idle.
void rig_close(rig_t* rig);

// Waits for everything that was submitted to |rig|.
iree_status_t rig_wait(const rig_t* rig);

#endif  // AMDGPU_RS_BENCHES_RIG_H_
