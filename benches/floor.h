// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The least that a host thread has to do for an operation: the packets, the
// kernel arguments, a completion record, and the doorbell, all in
// memory of the host. No other thread submits, nothing is retained, rings never
// fill. A driver's further cost is for the promises of a HAL.

#ifndef AMDGPU_RS_BENCHES_FLOOR_H_
#define AMDGPU_RS_BENCHES_FLOOR_H_

#include <stdbool.h>
#include <stdint.h>

// A barrier packet without dependencies.
void floor_barrier(void);

// A dispatch of a kernel with |bindings| pointers and eight bytes of constants.
void floor_dispatch(uint32_t bindings);

// As many such |dispatches|, with two bindings, that were written before: copied into the ring with one record and
// one doorbell for all. |has_table| writes the kernel arguments anew.
void floor_replay(uint32_t dispatches, bool has_table);

#endif  // AMDGPU_RS_BENCHES_FLOOR_H_
