// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A probe is a small program against iree/hal that prints facts about a driver.
// README.md beside this file says how one is written and run.

#ifndef AMDGPU_RS_TESTS_PROBES_PROBE_H_
#define AMDGPU_RS_TESTS_PROBES_PROBE_H_

// pthread_timedjoin_np
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "iree/base/api.h"
#include "iree/hal/api.h"

// Defines the program: `PROBE(active_wait) { ... }` in active_wait.c. One process runs one probe.
#define PROBE(name)                                                                  \
  static void probe_run_##name(void);                                                \
  __attribute__((constructor)) static void probe_register_##name(void) {             \
    static probe_entry_t entry = {#name, probe_run_##name, NULL};                    \
    probe_register(&entry);                                                          \
  }                                                                                  \
  static void probe_run_##name(void)

typedef struct probe_entry_t {
  const char* name;
  void (*run)(void);
  struct probe_entry_t* next;
} probe_entry_t;

void probe_register(probe_entry_t* entry);

// Ends the process with the failure of |expression|, for steps that are no facts.
#define REQUIRE(expression) probe_require((expression), __FILE__, __LINE__)
void probe_require(iree_status_t status, const char* file, int line);

// Prints the fact `name: value`, with printf's format.
void fact(const char* name, const char* format, ...) __attribute__((format(printf, 2, 3)));
// Prints the fact `name: OK` or `name: INVALID_ARGUMENT`, and the message to standard error. Consumes |status|.
void fact_status(const char* name, iree_status_t status);
// Prints the fact `name: yes` or `name: no`.
void fact_bool(const char* name, bool value);

// A device in a group of its own.
typedef struct probe_device_t {
  iree_hal_device_t* device;
  iree_hal_device_group_t* group;
} probe_device_t;

// Opens the default device of the driver that this process probes. |options| are `key=value` with commas between, or
// NULL. Close it when its queues are idle.
probe_device_t probe_open(const char* options);
// Opens the device at |path| (`0` is the first GPU) with |proactors|, or with a pool of its own if that is NULL. It is
// in no group yet.
iree_status_t probe_create(const char* path, const char* options, iree_hal_device_t** out_device);
// Makes a group of |device| and a new tracker, as a session does.
iree_status_t probe_group(iree_hal_device_t* device, iree_hal_device_group_t** out_group);
void probe_close(probe_device_t* device);

// Whether the driver is this project's.
bool probe_is_ours(void);

// A semaphore at 0.
iree_hal_semaphore_t* probe_semaphore(iree_hal_device_t* device);
// Memory of the host's that GPUs reach, all zeros; it can be mapped.
iree_hal_buffer_t* probe_buffer(iree_hal_device_t* device, iree_device_size_t size);
uint32_t probe_read(iree_hal_buffer_t* buffer, iree_host_size_t word);
void probe_write(iree_hal_buffer_t* buffer, iree_host_size_t word, uint32_t value);
// Parameters of a queue allocation of device-local memory.
iree_hal_buffer_params_t probe_device_local(void);

// No semaphore, or one.
#define NONE iree_hal_semaphore_list_empty()
#define AT(semaphore, value) \
  ((iree_hal_semaphore_list_t){1, (iree_hal_semaphore_t*[]){(semaphore)}, (uint64_t[]){(value)}})
// Waits for ever.
#define WAIT(semaphore, value) \
  iree_hal_semaphore_wait((semaphore), (value), iree_infinite_timeout(), IREE_ASYNC_WAIT_FLAG_NONE)

// A file of kernels, `kernels.co` of tests/testdata/kernels.c, or `NAME.co` of kernels/NAME.c or .s beside this. Free
// it.
iree_byte_span_t probe_code(const char* file);
// Loads code by |format|, or by the format that the device sees in it if that is NULL.
iree_status_t probe_load(iree_hal_device_t* device, iree_byte_span_t code, const char* format,
                         iree_hal_executable_t** out_executable);
// The kernels of tests/testdata/kernels.c.
iree_hal_executable_t* probe_kernels(iree_hal_device_t* device);
iree_hal_executable_function_t probe_function(iree_hal_executable_t* executable, const char* name);

// Dispatches |groups| workgroups of one work-item, with one binding, and one constant word where the kernel has one.
iree_status_t probe_dispatch(iree_hal_device_t* device, iree_hal_queue_affinity_t queues,
                             iree_hal_semaphore_list_t waits, iree_hal_semaphore_list_t signals,
                             iree_hal_executable_t* executable, const char* kernel, iree_hal_buffer_t* binding,
                             uint32_t groups, const uint32_t* constant);

// A kernel in flight on |queues| until it is released, which signals |signals| at its end.
typedef struct probe_hold_t {
  iree_hal_executable_t* executable;
  iree_hal_buffer_t* flag;
} probe_hold_t;
probe_hold_t probe_hold(iree_hal_device_t* device, iree_hal_queue_affinity_t queues,
                        iree_hal_semaphore_list_t signals);
void probe_release(probe_hold_t* hold);
// Frees the objects of |hold|; its kernel must have ended.
void probe_free_hold(probe_hold_t* hold);

// The sink of profiles of this process, empty.
iree_hal_profile_sink_t* probe_sink(void);

// The kinds of content that were written to the sink, in order: `devices queue-events`.
const char* probe_sink_contents(void);

// Runs |call| with |data| in a thread.
pthread_t probe_thread(void* (*call)(void*), void* data);
// Milliseconds on a clock that only goes forward.
int64_t probe_now_ms(void);
// KiB of this process in memory.
int64_t probe_resident_kib(void);

#endif  // AMDGPU_RS_TESTS_PROBES_PROBE_H_
