// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions of libbacktrace that IREE calls, for statuses with stack traces, which have
// none here.

#ifndef AMDGPU_RS_TESTS_BAZEL_BACKTRACE_H_
#define AMDGPU_RS_TESTS_BAZEL_BACKTRACE_H_

#include <stddef.h>
#include <stdint.h>

struct backtrace_state;
typedef void (*backtrace_error_callback)(void* data, const char* message, int error);
typedef int (*backtrace_simple_callback)(void* data, uintptr_t pc);
typedef int (*backtrace_full_callback)(void* data, uintptr_t pc, const char* file, int line, const char* function);

static inline struct backtrace_state* backtrace_create_state(const char* file, int threaded,
                                                             backtrace_error_callback on_error, void* data) {
  return NULL;
}

static inline int backtrace_simple(struct backtrace_state* state, int skip, backtrace_simple_callback callback,
                                   backtrace_error_callback on_error, void* data) {
  return 0;
}

static inline int backtrace_pcinfo(struct backtrace_state* state, uintptr_t pc, backtrace_full_callback callback,
                                   backtrace_error_callback on_error, void* data) {
  return 0;
}

#endif  // AMDGPU_RS_TESTS_BAZEL_BACKTRACE_H_
