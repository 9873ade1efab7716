// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The measured cases.

#ifndef AMDGPU_RS_BENCHES_CASES_H_
#define AMDGPU_RS_BENCHES_CASES_H_

#include "rig.h"

// A case is measured in rounds: it submits some times, then waits for the end
// of it all, so that the rings of a queue, which hold more than a round, never
// fill up. The wait counts where |is_end_to_end|, else submitting alone.
typedef struct case_t {
  const char* name;
  // Makes the objects that |submit| needs; may be NULL.
  iree_status_t (*prepare)(const struct case_t* self, rig_t* rig);
  iree_status_t (*submit)(const struct case_t* self, rig_t* rig, stream_t* stream);
  // The least that there is to do for |submit|, on a queue of the floor's own where |is_end_to_end|; may be NULL.
  void (*floor)(const struct case_t* self);
  // In one sample.
  uint32_t rounds;
  // In one round, of all threads.
  uint32_t submissions;
  bool is_end_to_end;
  // Threads that submit at the same time, each to a stream of its own; 1 if 0.
  uint32_t threads;
  // Hardware queues that streams are spread over; 1 if 0.
  uint32_t queues;
  // Timelines that an operation waits for, and a round's submissions take turns to signal.
  uint32_t waits;
  // Of a dispatch. Those of a command buffer have 2.
  uint32_t bindings;
  // Of a copy.
  iree_device_size_t size;
  // Whether resources are not to be retained.
  bool is_borrowed;
  // Dispatches in a command buffer or model, and whether a command buffer's bindings come from a table.
  uint32_t dispatches;
  bool has_table;
  // Data families that the device is profiled for meanwhile.
  iree_hal_device_profiling_data_families_t profiled;
  // Whether |submit| records, and submits nothing.
  bool is_recording;
} case_t;

extern const case_t cases[];
extern const iree_host_size_t case_count;

// Operations in one round, of which a figure is given: dispatches where there
// are command buffers, else submissions.
static inline uint64_t case_operations(const case_t* self) {
  return self->dispatches ? (uint64_t)self->submissions * self->dispatches : self->submissions;
}

static inline uint32_t case_threads(const case_t* self) { return self->threads ? self->threads : 1; }

// Makes |rig| ready for a case.
iree_status_t case_prepare(const case_t* self, rig_t* rig);

// Submits the |index|-th time in a round, on the thread that is the |thread|-th.
iree_status_t case_submit(const case_t* self, rig_t* rig, uint32_t thread, uint32_t index);

#endif  // AMDGPU_RS_BENCHES_CASES_H_
