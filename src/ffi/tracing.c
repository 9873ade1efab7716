// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// IREE's tracing macros as functions, for tracing.rs. build.rs compiles this
// file where IREE is built with tracing.

#include <stddef.h>

#include "iree/base/api.h"
#include "iree/base/tracing.h"

// Tracy tells streams of memory apart by the address of their name, and other
// providers take its length from its type.
static const char amdgpu_rs_trace_buffers[] = "amdgpu_rs-buffers";
static const char amdgpu_rs_trace_slabs[] = "amdgpu_rs-slabs";

void amdgpu_rs_trace_allocate(int is_slab, void* address, size_t size) {
  if (is_slab) {
    IREE_TRACE_ALLOC_NAMED(amdgpu_rs_trace_slabs, address, size);
  } else {
    IREE_TRACE_ALLOC_NAMED(amdgpu_rs_trace_buffers, address, size);
  }
}

void amdgpu_rs_trace_free(int is_slab, void* address) {
  if (is_slab) {
    IREE_TRACE_FREE_NAMED(amdgpu_rs_trace_slabs, address);
  } else {
    IREE_TRACE_FREE_NAMED(amdgpu_rs_trace_buffers, address);
  }
}

void amdgpu_rs_trace_message(const char* text, size_t length) {
  IREE_TRACE_MESSAGE_DYNAMIC(WARNING, text, length);
}

// |name| stays as long as the process.
void amdgpu_rs_trace_thread_name(const char* name) {
  IREE_TRACE_SET_THREAD_NAME(name);
}
