// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cases.h"

#include "floor.h"
#include "hsa_floor.h"
#include "iree/modules/hal/types.h"

static const struct {
  uint32_t a;
  uint32_t count;
} CONSTANTS = {2, RIG_BUFFER_SIZE / sizeof(float)};

enum { MAX_WAITS = 4, PROGRAM_BINDINGS = 2 };

// Wait and signal lists of a submission. It waits for the newest value of its own
// timeline, as compiled programs do, or of several, and signals the next value.
typedef struct link_t {
  iree_hal_semaphore_list_t waits;
  iree_hal_semaphore_list_t signals;
  iree_hal_semaphore_t* semaphores[MAX_WAITS];
  uint64_t values[MAX_WAITS];
  iree_hal_semaphore_t* semaphore;
  uint64_t signal;
} link_t;

static void add_wait(link_t* link, const stream_t* stream) {
  link->semaphores[link->waits.count] = stream->semaphore;
  link->values[link->waits.count++] = stream->value;
}

// A link of |stream| without waits. The link is the storage of its lists.
static void begin_link(const stream_t* stream, link_t* link) {
  link->semaphore = stream->semaphore;
  link->signal = stream->value + 1;
  link->waits = (iree_hal_semaphore_list_t){.semaphores = link->semaphores, .payload_values = link->values};
  link->signals =
      (iree_hal_semaphore_list_t){.count = 1, .semaphores = &link->semaphore, .payload_values = &link->signal};
}

static void next_link(const case_t* self, const rig_t* rig, const stream_t* stream, link_t* link) {
  begin_link(stream, link);
  if (self->waits == 1) add_wait(link, stream);
  for (uint32_t i = 0; self->waits > 1 && i < self->waits; ++i) add_wait(link, &rig->streams[i]);
}

// Advances the stream by the link, unless its submission failed.
static iree_status_t submitted(stream_t* stream, iree_status_t status) {
  if (iree_status_is_ok(status)) ++stream->value;
  return status;
}

//===----------------------------------------------------------------------===//
// Single operations
//===----------------------------------------------------------------------===//

static iree_status_t submit_barrier(const case_t* self, rig_t* rig, stream_t* stream) {
  link_t link;
  next_link(self, rig, stream, &link);
  return submitted(stream, iree_hal_device_queue_barrier(rig->device, stream->affinity, link.waits, link.signals,
                                                         IREE_HAL_EXECUTE_FLAG_NONE));
}

// A barrier on one queue and a barrier on another one that waits for it.
static iree_status_t submit_edge(const case_t* self, rig_t* rig, stream_t* stream) {
  IREE_RETURN_IF_ERROR(submit_barrier(self, rig, stream));
  stream_t* target = &rig->streams[1];
  link_t link;
  begin_link(target, &link);
  add_wait(&link, stream);
  return submitted(target, iree_hal_device_queue_barrier(rig->device, target->affinity, link.waits, link.signals,
                                                         IREE_HAL_EXECUTE_FLAG_NONE));
}

static iree_hal_dispatch_config_t dispatch_config(void) {
  // One workgroup of the kernel's own size.
  return iree_hal_make_static_dispatch_config(1, 1, 1);
}

static iree_status_t submit_dispatch(const case_t* self, rig_t* rig, stream_t* stream) {
  link_t link;
  next_link(self, rig, stream, &link);
  iree_hal_buffer_ref_t bindings[RIG_BUFFERS];
  for (uint32_t i = 0; i < self->bindings; ++i) {
    bindings[i] = iree_hal_make_buffer_ref(rig->buffers[i], 0, RIG_BUFFER_SIZE);
  }
  return submitted(stream, iree_hal_device_queue_dispatch(
                               rig->device, stream->affinity, link.waits, link.signals, rig->executable, rig->function,
                               dispatch_config(), iree_make_const_byte_span(&CONSTANTS, sizeof(CONSTANTS)),
                               (iree_hal_buffer_ref_list_t){.count = self->bindings, .values = bindings},
                               self->is_borrowed ? IREE_HAL_DISPATCH_FLAG_BORROW_RESOURCE_LIFETIMES
                                                 : IREE_HAL_DISPATCH_FLAG_NONE));
}

static iree_status_t submit_fill(const case_t* self, rig_t* rig, stream_t* stream) {
  link_t link;
  next_link(self, rig, stream, &link);
  const uint32_t pattern = 0x12345678;
  return submitted(stream, iree_hal_device_queue_fill(rig->device, stream->affinity, link.waits, link.signals,
                                                      rig->large_buffers[0], 0, self->size, &pattern, sizeof(pattern),
                                                      IREE_HAL_FILL_FLAG_NONE));
}

static iree_status_t submit_copy(const case_t* self, rig_t* rig, stream_t* stream) {
  link_t link;
  next_link(self, rig, stream, &link);
  return submitted(stream, iree_hal_device_queue_copy(rig->device, stream->affinity, link.waits, link.signals,
                                                      rig->large_buffers[0], 0, rig->large_buffers[1], 0, self->size,
                                                      IREE_HAL_COPY_FLAG_NONE));
}

static iree_status_t submit_update(const case_t* self, rig_t* rig, stream_t* stream) {
  static const uint8_t source[RIG_LARGE_BUFFER_SIZE];
  link_t link;
  next_link(self, rig, stream, &link);
  return submitted(stream, iree_hal_device_queue_update(rig->device, stream->affinity, link.waits, link.signals,
                                                        source, 0, rig->large_buffers[0], 0, self->size,
                                                        IREE_HAL_UPDATE_FLAG_NONE));
}

// An alloca and its dealloca.
static iree_status_t submit_alloca(const case_t* self, rig_t* rig, stream_t* stream) {
  const iree_hal_buffer_params_t params = {
      .usage = IREE_HAL_BUFFER_USAGE_DEFAULT,
      .type = IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL,
  };
  link_t begin, end;
  next_link(self, rig, stream, &begin);
  iree_hal_buffer_t* buffer = NULL;
  IREE_RETURN_IF_ERROR(submitted(
      stream, iree_hal_device_queue_alloca(rig->device, stream->affinity, begin.waits, begin.signals, NULL, params,
                                           RIG_BUFFER_SIZE, IREE_HAL_ALLOCA_FLAG_NONE, &buffer)));
  next_link(self, rig, stream, &end);
  iree_status_t status =
      submitted(stream, iree_hal_device_queue_dealloca(rig->device, stream->affinity, end.waits, end.signals, buffer,
                                                       IREE_HAL_DEALLOCA_FLAG_NONE));
  iree_hal_buffer_release(buffer);
  return status;
}

static iree_status_t call_host(void* user_data, const uint64_t args[4], iree_hal_host_call_context_t* context) {
  return iree_ok_status();
}

static iree_status_t submit_host_call(const case_t* self, rig_t* rig, stream_t* stream) {
  link_t link;
  next_link(self, rig, stream, &link);
  const uint64_t arguments[4] = {0};
  return submitted(stream, iree_hal_device_queue_host_call(rig->device, stream->affinity, link.waits, link.signals,
                                                           iree_hal_make_host_call(call_host, NULL), arguments,
                                                           IREE_HAL_HOST_CALL_FLAG_NONE));
}

//===----------------------------------------------------------------------===//
// Command buffers
//===----------------------------------------------------------------------===//

// Records dispatches of |buffers|, or of binding table slots if |self| has a table.
static iree_status_t record_into(const case_t* self, rig_t* rig, iree_hal_buffer_t* const* buffers,
                                 iree_hal_command_buffer_t* commands) {
  iree_hal_buffer_ref_t bindings[PROGRAM_BINDINGS];
  for (uint32_t i = 0; i < IREE_ARRAYSIZE(bindings); ++i) {
    bindings[i] = self->has_table ? iree_hal_make_indirect_buffer_ref(i, 0, RIG_BUFFER_SIZE)
                                  : iree_hal_make_buffer_ref(buffers[i], 0, RIG_BUFFER_SIZE);
  }
  IREE_RETURN_IF_ERROR(iree_hal_command_buffer_begin(commands));
  for (uint32_t i = 0; i < self->dispatches; ++i) {
    IREE_RETURN_IF_ERROR(iree_hal_command_buffer_dispatch(
        commands, rig->executable, rig->function, dispatch_config(),
        iree_make_const_byte_span(&CONSTANTS, sizeof(CONSTANTS)),
        (iree_hal_buffer_ref_list_t){.count = IREE_ARRAYSIZE(bindings), .values = bindings},
        IREE_HAL_DISPATCH_FLAG_NONE));
  }
  return iree_hal_command_buffer_end(commands);
}

static iree_status_t record_with(const case_t* self, rig_t* rig, iree_hal_buffer_t* const* buffers) {
  iree_hal_command_buffer_release(rig->program);
  rig->program = NULL;
  IREE_RETURN_IF_ERROR(iree_hal_command_buffer_create(
      rig->device, self->is_borrowed ? IREE_HAL_COMMAND_BUFFER_MODE_UNRETAINED : IREE_HAL_COMMAND_BUFFER_MODE_DEFAULT,
      IREE_HAL_COMMAND_CATEGORY_DISPATCH, IREE_HAL_QUEUE_AFFINITY_ANY, self->has_table ? PROGRAM_BINDINGS : 0,
      &rig->program));
  return record_into(self, rig, buffers, rig->program);
}

static iree_status_t record_program(const case_t* self, rig_t* rig) { return record_with(self, rig, rig->buffers); }

static iree_status_t submit_recording(const case_t* self, rig_t* rig, stream_t* stream) {
  return record_program(self, rig);
}

// Records buffers whose alloca still waits for a semaphore. The recording is not executed.
static iree_status_t submit_waiting_recording(const case_t* self, rig_t* rig, stream_t* stream) {
  const iree_hal_buffer_params_t params = {
      .usage = IREE_HAL_BUFFER_USAGE_DEFAULT,
      .type = IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL,
  };
  iree_hal_semaphore_t* gate = NULL;
  IREE_RETURN_IF_ERROR(iree_hal_semaphore_create(rig->device, IREE_HAL_QUEUE_AFFINITY_ANY, 0,
                                                 IREE_HAL_SEMAPHORE_FLAG_DEFAULT, &gate));
  iree_hal_buffer_t* buffers[PROGRAM_BINDINGS] = {NULL};
  iree_status_t status = iree_ok_status();
  for (uint32_t i = 0; i < PROGRAM_BINDINGS && iree_status_is_ok(status); ++i) {
    link_t link;
    next_link(self, rig, stream, &link);
    link.semaphores[link.waits.count] = gate;
    link.values[link.waits.count++] = 1;
    status = submitted(
        stream, iree_hal_device_queue_alloca(rig->device, stream->affinity, link.waits, link.signals, NULL, params,
                                             RIG_BUFFER_SIZE, IREE_HAL_ALLOCA_FLAG_NONE, &buffers[i]));
  }
  if (iree_status_is_ok(status)) status = record_with(self, rig, buffers);
  status = iree_status_join(status, iree_hal_semaphore_signal(gate, 1, NULL));
  for (uint32_t i = 0; i < PROGRAM_BINDINGS && buffers[i]; ++i) {
    link_t link;
    next_link(self, rig, stream, &link);
    status = iree_status_join(
        status, submitted(stream, iree_hal_device_queue_dealloca(rig->device, stream->affinity, link.waits,
                                                                 link.signals, buffers[i],
                                                                 IREE_HAL_DEALLOCA_FLAG_NONE)));
    iree_hal_buffer_release(buffers[i]);
  }
  iree_hal_semaphore_release(gate);
  return status;
}

static iree_status_t submit_program(const case_t* self, rig_t* rig, stream_t* stream) {
  link_t link;
  next_link(self, rig, stream, &link);
  const iree_hal_buffer_binding_t bindings[PROGRAM_BINDINGS] = {
      {rig->buffers[0], 0, RIG_BUFFER_SIZE},
      {rig->buffers[1], 0, RIG_BUFFER_SIZE},
  };
  iree_hal_buffer_binding_table_t table = iree_hal_buffer_binding_table_empty();
  if (self->has_table) {
    table = (iree_hal_buffer_binding_table_t){.count = IREE_ARRAYSIZE(bindings), .bindings = bindings};
  }
  return submitted(stream, iree_hal_device_queue_execute(
                               rig->device, stream->affinity, link.waits, link.signals, rig->program, table,
                               self->is_borrowed ? IREE_HAL_EXECUTE_FLAG_BORROW_BINDING_TABLE_LIFETIME
                                                 : IREE_HAL_EXECUTE_FLAG_NONE));
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

static iree_status_t load_model(const case_t* self, rig_t* rig) { return rig_load_model(rig, self->dispatches); }

static iree_status_t push_fence(iree_vm_list_t* arguments, const stream_t* stream, uint64_t value) {
  iree_hal_fence_t* fence = NULL;
  IREE_RETURN_IF_ERROR(iree_hal_fence_create_at(stream->semaphore, value, iree_allocator_system(), &fence));
  iree_vm_ref_t reference = iree_hal_fence_move_ref(fence);
  iree_status_t status = iree_vm_list_push_ref_move(arguments, &reference);
  iree_vm_ref_release(&reference);
  return status;
}

// Calls a compiled function asynchronously: the call returns once all is submitted.
static iree_status_t submit_model(const case_t* self, rig_t* rig, stream_t* stream) {
  iree_vm_list_clear(rig->arguments);
  iree_vm_list_clear(rig->results);
  for (iree_host_size_t i = 0; i < IREE_ARRAYSIZE(rig->model_inputs); ++i) {
    iree_vm_ref_t reference = iree_hal_buffer_view_retain_ref(rig->model_inputs[i]);
    iree_status_t status = iree_vm_list_push_ref_move(rig->arguments, &reference);
    iree_vm_ref_release(&reference);
    IREE_RETURN_IF_ERROR(status);
  }
  IREE_RETURN_IF_ERROR(push_fence(rig->arguments, stream, stream->value));
  IREE_RETURN_IF_ERROR(push_fence(rig->arguments, stream, stream->value + 1));
  return submitted(stream, iree_vm_invoke(rig->context, rig->model, IREE_VM_INVOCATION_FLAG_NONE, /*policy=*/NULL,
                                          rig->arguments, rig->results, iree_allocator_system()));
}

//===----------------------------------------------------------------------===//
// The floor
//===----------------------------------------------------------------------===//

static void barrier_floor(const case_t* self) { self->is_end_to_end ? hsa_floor_barrier() : floor_barrier(); }

static void dispatch_floor(const case_t* self) {
  self->is_end_to_end ? hsa_floor_dispatch() : floor_dispatch(self->bindings);
}

// A kernel of two arguments: source or pattern, and target.
static void transfer_floor(const case_t* self) { floor_dispatch(2); }

static void replay_floor(const case_t* self) {
  (self->is_end_to_end ? hsa_floor_replay : floor_replay)(self->dispatches, self->has_table);
}

//===----------------------------------------------------------------------===//
// The list of cases
//===----------------------------------------------------------------------===//

#define SUBMIT(label, what, count, ...) \
  {.name = label, .submit = submit_##what, .rounds = 4096 / (count), .submissions = (count), __VA_ARGS__}
#define END_TO_END(label, what, ...)                                                                                 \
  {.name = label, .submit = submit_##what, .rounds = 512, .submissions = 1, .waits = 1, .is_end_to_end = true, \
   __VA_ARGS__}
// A case of submission time.
#define DISPATCH(label, wait_count, binding_count, ...)                                                    \
  SUBMIT(label, dispatch, 64, .waits = (wait_count), .bindings = (binding_count), .floor = dispatch_floor, \
         __VA_ARGS__)
// `dispatch/submit` and `dispatch/end-to-end` under a profile.
#define PROFILED(label, family)                                                                              \
  DISPATCH("profiled/" label "/submit", 1, 2, .profiled = IREE_HAL_DEVICE_PROFILING_DATA_##family),          \
  END_TO_END("profiled/" label "/end-to-end", dispatch, .bindings = 2,                                       \
             .profiled = IREE_HAL_DEVICE_PROFILING_DATA_##family)
// `dispatch/submit` under a profile that is costly per dispatch or takes GPU memory: IREE's C driver builds the packets
// of counters and traces anew for each dispatch.
#define PROFILED_FEW(label, family)        \
  {.name = "profiled/" label "/submit",    \
   .submit = submit_dispatch,              \
   .rounds = 2,                            \
   .submissions = 32,                      \
   .waits = 1,                             \
   .bindings = 2,                          \
   .floor = dispatch_floor,                \
   .profiled = IREE_HAL_DEVICE_PROFILING_DATA_##family}
#define TRANSFER(label, what, ...) SUBMIT(label, what, 32, .waits = 1, .floor = transfer_floor, __VA_ARGS__)
#define THREADS(label, thread_count, queue_count)                                                               \
  {.name = label,                                                                                               \
   .submit = submit_dispatch,                                                                                   \
   .rounds = 8,                                                                                                 \
   .submissions = 512,                                                                                          \
   .waits = 1,                                                                                                  \
   .bindings = 2,                                                                                               \
   .threads = (thread_count),                                                                                   \
   .queues = (queue_count)}
#define PROGRAM(table, count, submission_count)                                                       \
  .rounds = 32000 / ((count) * (submission_count)), .submissions = (submission_count), .waits = 1, \
  .bindings = 2, .dispatches = (count), .has_table = (table)
#define RECORD(kind, table, count, submission_count, ...) \
  {.name = "record/" kind "/" #count, .submit = submit_recording, .is_recording = true, \
   PROGRAM(table, count, submission_count), __VA_ARGS__}
#define REPLAY(kind, table, count, how, submission_count, ...)                                             \
  {.name = "replay/" kind "/" #count "/" how, .prepare = record_program, .submit = submit_program, \
   PROGRAM(table, count, submission_count), __VA_ARGS__}
#define PROGRAM_CASES(kind, table, count, submission_count)                            \
  RECORD(kind, table, count, submission_count),                                        \
  REPLAY(kind, table, count, "submit", submission_count, .floor = replay_floor),       \
  REPLAY(kind, table, count, "end-to-end", 1, .is_end_to_end = true, .floor = replay_floor)
#define MODEL(label, count, ...) \
  {.name = label, .prepare = load_model, .submit = submit_model, .bindings = 2, .dispatches = (count), __VA_ARGS__}

const case_t cases[] = {
    SUBMIT("barrier/submit", barrier, 64, .waits = 1, .floor = barrier_floor),
    END_TO_END("barrier/end-to-end", barrier, .floor = barrier_floor),
    SUBMIT("edge/submit", edge, 64, .waits = 1, .queues = 2),
    END_TO_END("edge/end-to-end", edge, .queues = 2),
    DISPATCH("dispatch/submit", 1, 2),
    DISPATCH("dispatch/waits-0", 0, 2),
    DISPATCH("dispatch/waits-4", 4, 2),
    DISPATCH("dispatch/bindings-0", 1, 0),
    DISPATCH("dispatch/bindings-4", 1, 4),
    DISPATCH("dispatch/bindings-16", 1, 16),
    DISPATCH("dispatch/bindings-64", 1, 64),
    DISPATCH("dispatch/borrowed", 1, 2, .is_borrowed = true),
    END_TO_END("dispatch/end-to-end", dispatch, .bindings = 2, .floor = dispatch_floor),
    PROFILED("queue-events", QUEUE_EVENTS),
    PROFILED("host-execution", HOST_EXECUTION_EVENTS),
    PROFILED("device-queue-events", DEVICE_QUEUE_EVENTS),
    PROFILED("dispatch-events", DISPATCH_EVENTS),
    PROFILED("memory-events", MEMORY_EVENTS),
    SUBMIT("profiled/memory-events/alloca", alloca, 32, .waits = 1,
           .profiled = IREE_HAL_DEVICE_PROFILING_DATA_MEMORY_EVENTS),
    PROFILED("executable-metadata", EXECUTABLE_METADATA),
    PROFILED("command-region-events", COMMAND_REGION_EVENTS),
    {.name = "profiled/command-region-events/replay",
     .prepare = record_program,
     .submit = submit_program,
     PROGRAM(false, 10, 8),
     .profiled = IREE_HAL_DEVICE_PROFILING_DATA_COMMAND_REGION_EVENTS},
    PROFILED("device-metrics", DEVICE_METRICS),
    PROFILED_FEW("counters", COUNTER_SAMPLES),
    PROFILED_FEW("counter-ranges", COUNTER_RANGES),
    PROFILED_FEW("executable-traces", EXECUTABLE_TRACES),
    {.name = "dispatch/chain-512",
     .submit = submit_dispatch,
     .rounds = 8,
     .submissions = 512,
     .waits = 1,
     .bindings = 2,
     .is_end_to_end = true,
     .floor = dispatch_floor},
    THREADS("dispatch/threads-2/one-queue", 2, 1),
    THREADS("dispatch/threads-2/own-queues", 2, 2),
    THREADS("dispatch/threads-8/one-queue", 8, 1),
    THREADS("dispatch/threads-8/two-queues", 8, 2),
    THREADS("dispatch/threads-8/own-queues", 8, 8),
    TRANSFER("fill/4-KiB", fill, .size = 4096),
    TRANSFER("copy/4-B", copy, .size = 4),
    TRANSFER("copy/4-KiB", copy, .size = 4096),
    TRANSFER("copy/1-MiB", copy, .size = 1 << 20),
    SUBMIT("update/4-KiB", update, 32, .waits = 1, .size = 4096),
    SUBMIT("alloca/submit", alloca, 32, .waits = 1),
    END_TO_END("alloca/end-to-end", alloca),
    SUBMIT("host-call/submit", host_call, 64, .waits = 1),
    END_TO_END("host-call/end-to-end", host_call),
    PROGRAM_CASES("static", false, 10, 8),
    PROGRAM_CASES("table", true, 10, 8),
    PROGRAM_CASES("static", false, 16, 8),
    PROGRAM_CASES("table", true, 16, 8),
    PROGRAM_CASES("static", false, 512, 1),
    PROGRAM_CASES("table", true, 512, 1),
    PROGRAM_CASES("static", false, 1000, 1),
    PROGRAM_CASES("table", true, 1000, 1),
    RECORD("unretained", false, 10, 8, .is_borrowed = true),
    {.name = "record/waiting/100", .submit = submit_waiting_recording, PROGRAM(false, 100, 1)},
    REPLAY("borrowed", true, 1000, "submit", 1, .is_borrowed = true, .floor = replay_floor),
    PROGRAM_CASES("static", false, 10000, 1),
    PROGRAM_CASES("table", true, 10000, 1),
    MODEL("model/10/submit", 10, .rounds = 32, .submissions = 8),
    MODEL("model/10/end-to-end", 10, .rounds = 256, .submissions = 1, .is_end_to_end = true),
    MODEL("model/800/submit", 800, .rounds = 32, .submissions = 1),
    MODEL("model/800/end-to-end", 800, .rounds = 32, .submissions = 1, .is_end_to_end = true),
};
const iree_host_size_t case_count = IREE_ARRAYSIZE(cases);

iree_status_t case_prepare(const case_t* self, rig_t* rig) {
  IREE_RETURN_IF_ERROR(rig_use(rig, self->bindings, self->queues ? self->queues : 1));
  IREE_RETURN_IF_ERROR(rig_profile(rig, self->profiled));
  return self->prepare ? self->prepare(self, rig) : iree_ok_status();
}

iree_status_t case_submit(const case_t* self, rig_t* rig, uint32_t thread, uint32_t index) {
  return self->submit(self, rig, &rig->streams[self->waits > 1 ? index % self->waits : thread]);
}
