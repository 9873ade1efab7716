// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is measured.

#ifndef AMDGPU_RS_BENCHES_CASES_H_
#define AMDGPU_RS_BENCHES_CASES_H_

#include "rig.h"

// A case is measured in rounds: it submits some times, then waits for the end
// of it all, so that the rings of a queue, which hold more than a round, never
// fill up. The wait counts where |is_end_to_end|, else submitting alone.
typedef struct case_t {
  const char* name;
  // Makes what |submit| needs; may be NULL.
  iree_status_t (*prepare)(const struct case_t* self, rig_t* rig);
  iree_status_t (*submit)(const struct case_t* self, rig_t* rig);
  // The least that there is to do for |submit|; may be NULL.
  void (*floor)(const struct case_t* self);
  // In one sample.
  uint32_t rounds;
  // In one round.
  uint32_t submissions;
  bool is_end_to_end;
  // Dispatches in a command buffer, and whether its bindings come from a table.
  uint32_t dispatches;
  bool has_table;
} case_t;

extern const case_t cases[];
extern const iree_host_size_t case_count;

// Operations in one sample, of which a figure is given: dispatches where there
// are command buffers, else submissions.
static inline uint64_t case_operations(const case_t* self) {
  uint64_t submissions = (uint64_t)self->rounds * self->submissions;
  return self->dispatches ? submissions * self->dispatches : submissions;
}

#endif  // AMDGPU_RS_BENCHES_CASES_H_
