// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The least time from end to end: a program of its own on HSA writes a case's
// packets and kernel arguments to a queue and looks at the last one's signal
// until it is complete. It has no semaphores and no thread but its own, keeps
// nothing alive, and knows that no ring is full. The time of this is the GPU's,
// whatever the driver.

#ifndef AMDGPU_RS_BENCHES_HSA_FLOOR_H_
#define AMDGPU_RS_BENCHES_HSA_FLOOR_H_

#include "iree/base/api.h"

// Makes the queue on the first GPU of the HSA library at |library|, with the kernels of `kernels.co` in |folder|, for
// as long as the process. UNAVAILABLE in a build without HSA's headers, which come with IREE's C driver.
iree_status_t hsa_floor_open(const char* library, const char* folder);

// A barrier packet behind all packets before it.
void hsa_floor_barrier(void);

// A dispatch with two bindings, behind all packets before it.
void hsa_floor_dispatch(void);

// As many |dispatches| of the same kernel in no order, with arguments that were written before, or, with a table, are
// written now.
void hsa_floor_replay(uint32_t dispatches, bool has_table);

// Returns when all that was submitted is complete.
void hsa_floor_wait(void);

#endif  // AMDGPU_RS_BENCHES_HSA_FLOOR_H_
