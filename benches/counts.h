// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The exact work of a thread: it is single-stepped, and each instruction looked
// at before it runs. That needs neither hardware counters nor a right to trace,
// and takes some microseconds an instruction (more in a virtual machine).

#ifndef AMDGPU_RS_BENCHES_COUNTS_H_
#define AMDGPU_RS_BENCHES_COUNTS_H_

#include "iree/base/api.h"

// All outside of the HSA library, but for its calls.
typedef struct counts_t {
  // In user space. One with a repeat prefix counts once.
  uint64_t instructions;
  // Those that lock the bus or wait for the store buffer: with a lock prefix, exchanges with memory, mfence.
  uint64_t locked;
  // Calls of malloc and its kin.
  uint64_t allocations;
  uint64_t system_calls;
  // From outside of the library. Code inside of it is the sim's, and not counted.
  uint64_t hsa_calls;
} counts_t;

// Makes counting possible. |hsa_address| is in the HSA library that is in use.
iree_status_t counts_initialize(const void* hsa_address);

// Counts the calling thread's work until counts_end, one thread at a time. It
// may not block SIGTRAP meanwhile, as creating a thread does: that ends the process.
void counts_begin(void);
counts_t counts_end(void);

#endif  // AMDGPU_RS_BENCHES_COUNTS_H_
