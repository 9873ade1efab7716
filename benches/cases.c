// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cases.h"

#include "floor.h"

static const struct {
  float a;
  uint32_t count;
} CONSTANTS = {2.0f, RIG_BUFFER_SIZE / sizeof(float)};

// A submission's place on a timeline: it waits for the one before it on the
// same stream, as compiled programs have it, and signals the next value.
typedef struct link_t {
  iree_hal_semaphore_t* semaphore;
  uint64_t wait;
  uint64_t signal;
} link_t;

static link_t next_link(stream_t* stream) {
  link_t link = {stream->semaphore, stream->value, stream->value + 1};
  return link;
}

static iree_hal_semaphore_list_t waits(link_t* link) {
  iree_hal_semaphore_list_t list = {.count = 1, .semaphores = &link->semaphore, .payload_values = &link->wait};
  return list;
}

static iree_hal_semaphore_list_t signals(link_t* link) {
  iree_hal_semaphore_list_t list = {.count = 1, .semaphores = &link->semaphore, .payload_values = &link->signal};
  return list;
}

// The link counts once the call that submits it has not failed.
static iree_status_t submitted(stream_t* stream, iree_status_t status) {
  if (iree_status_is_ok(status)) ++stream->value;
  return status;
}

//===----------------------------------------------------------------------===//
// Single operations
//===----------------------------------------------------------------------===//

static iree_status_t submit_barrier(const case_t* self, rig_t* rig) {
  stream_t* stream = &rig->streams[0];
  link_t link = next_link(stream);
  return submitted(stream, iree_hal_device_queue_barrier(rig->device, stream->affinity, waits(&link), signals(&link),
                                                         IREE_HAL_EXECUTE_FLAG_NONE));
}

// A barrier on one queue and a barrier on another one that waits for it.
static iree_status_t submit_edge(const case_t* self, rig_t* rig) {
  IREE_RETURN_IF_ERROR(submit_barrier(self, rig));
  stream_t* source = &rig->streams[0];
  stream_t* target = &rig->streams[1];
  link_t edge = {source->semaphore, source->value, 0};
  link_t link = next_link(target);
  return submitted(target, iree_hal_device_queue_barrier(rig->device, target->affinity, waits(&edge), signals(&link),
                                                         IREE_HAL_EXECUTE_FLAG_NONE));
}

static iree_hal_dispatch_config_t dispatch_config(void) {
  iree_hal_dispatch_config_t config = iree_hal_make_static_dispatch_config(1, 1, 1);
  config.workgroup_size[0] = 64;
  config.workgroup_size[1] = config.workgroup_size[2] = 1;
  return config;
}

static iree_status_t submit_dispatch(const case_t* self, rig_t* rig) {
  stream_t* stream = &rig->streams[0];
  link_t link = next_link(stream);
  const iree_hal_buffer_ref_t bindings[] = {
      iree_hal_make_buffer_ref(rig->buffers[0], 0, RIG_BUFFER_SIZE),
      iree_hal_make_buffer_ref(rig->buffers[1], 0, RIG_BUFFER_SIZE),
  };
  return submitted(stream,
                   iree_hal_device_queue_dispatch(
                       rig->device, stream->affinity, waits(&link), signals(&link), rig->executable, rig->function,
                       dispatch_config(), iree_make_const_byte_span(&CONSTANTS, sizeof(CONSTANTS)),
                       (iree_hal_buffer_ref_list_t){.count = IREE_ARRAYSIZE(bindings), .values = bindings},
                       IREE_HAL_DISPATCH_FLAG_NONE));
}

static iree_status_t submit_fill(const case_t* self, rig_t* rig) {
  stream_t* stream = &rig->streams[0];
  link_t link = next_link(stream);
  const uint32_t pattern = 0x12345678;
  return submitted(stream, iree_hal_device_queue_fill(rig->device, stream->affinity, waits(&link), signals(&link),
                                                      rig->buffers[0], 0, RIG_BUFFER_SIZE, &pattern, sizeof(pattern),
                                                      IREE_HAL_FILL_FLAG_NONE));
}

static iree_status_t submit_copy(const case_t* self, rig_t* rig) {
  stream_t* stream = &rig->streams[0];
  link_t link = next_link(stream);
  return submitted(stream, iree_hal_device_queue_copy(rig->device, stream->affinity, waits(&link), signals(&link),
                                                      rig->buffers[0], 0, rig->buffers[1], 0, RIG_BUFFER_SIZE,
                                                      IREE_HAL_COPY_FLAG_NONE));
}

static iree_status_t submit_update(const case_t* self, rig_t* rig) {
  static const uint8_t source[RIG_BUFFER_SIZE];
  stream_t* stream = &rig->streams[0];
  link_t link = next_link(stream);
  return submitted(stream, iree_hal_device_queue_update(rig->device, stream->affinity, waits(&link), signals(&link),
                                                        source, 0, rig->buffers[0], 0, RIG_BUFFER_SIZE,
                                                        IREE_HAL_UPDATE_FLAG_NONE));
}

// An allocation and its end.
static iree_status_t submit_alloca(const case_t* self, rig_t* rig) {
  const iree_hal_buffer_params_t params = {
      .usage = IREE_HAL_BUFFER_USAGE_DEFAULT,
      .type = IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL,
  };
  stream_t* stream = &rig->streams[0];
  link_t begin = next_link(stream);
  iree_hal_buffer_t* buffer = NULL;
  IREE_RETURN_IF_ERROR(submitted(
      stream, iree_hal_device_queue_alloca(rig->device, stream->affinity, waits(&begin), signals(&begin), NULL, params,
                                           RIG_BUFFER_SIZE, IREE_HAL_ALLOCA_FLAG_NONE, &buffer)));
  link_t end = next_link(stream);
  iree_status_t status =
      submitted(stream, iree_hal_device_queue_dealloca(rig->device, stream->affinity, waits(&end), signals(&end),
                                                       buffer, IREE_HAL_DEALLOCA_FLAG_NONE));
  iree_hal_buffer_release(buffer);
  return status;
}

//===----------------------------------------------------------------------===//
// Command buffers
//===----------------------------------------------------------------------===//

static iree_status_t record_into(const case_t* self, rig_t* rig, iree_hal_command_buffer_t* commands) {
  iree_hal_buffer_ref_t bindings[2];
  for (uint32_t i = 0; i < 2; ++i) {
    bindings[i] = self->has_table ? iree_hal_make_indirect_buffer_ref(i, 0, RIG_BUFFER_SIZE)
                                  : iree_hal_make_buffer_ref(rig->buffers[i], 0, RIG_BUFFER_SIZE);
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

static iree_status_t record_program(const case_t* self, rig_t* rig) {
  iree_hal_command_buffer_release(rig->program);
  rig->program = NULL;
  IREE_RETURN_IF_ERROR(iree_hal_command_buffer_create(
      rig->device, IREE_HAL_COMMAND_BUFFER_MODE_DEFAULT, IREE_HAL_COMMAND_CATEGORY_DISPATCH,
      IREE_HAL_QUEUE_AFFINITY_ANY, self->has_table ? 2 : 0, &rig->program));
  return record_into(self, rig, rig->program);
}

static iree_status_t submit_program(const case_t* self, rig_t* rig) {
  stream_t* stream = &rig->streams[0];
  link_t link = next_link(stream);
  const iree_hal_buffer_binding_t bindings[] = {
      {rig->buffers[0], 0, RIG_BUFFER_SIZE},
      {rig->buffers[1], 0, RIG_BUFFER_SIZE},
  };
  iree_hal_buffer_binding_table_t table = iree_hal_buffer_binding_table_empty();
  if (self->has_table) {
    table = (iree_hal_buffer_binding_table_t){.count = IREE_ARRAYSIZE(bindings), .bindings = bindings};
  }
  return submitted(stream, iree_hal_device_queue_execute(rig->device, stream->affinity, waits(&link), signals(&link),
                                                         rig->program, table, IREE_HAL_EXECUTE_FLAG_NONE));
}

//===----------------------------------------------------------------------===//
// The least that there is to do
//===----------------------------------------------------------------------===//

static void barrier_floor(const case_t* self) { floor_barrier(); }

static void dispatch_floor(const case_t* self) { floor_dispatch(2); }

static void replay_floor(const case_t* self) { floor_replay(self->dispatches, self->has_table); }

//===----------------------------------------------------------------------===//
// The list
//===----------------------------------------------------------------------===//

#define SUBMIT(what, count, ...) \
  {.name = #what "/submit", .submit = submit_##what, .rounds = 4096 / (count), .submissions = (count), __VA_ARGS__}
#define END_TO_END(what) \
  {.name = #what "/end-to-end", .submit = submit_##what, .rounds = 512, .submissions = 1, .is_end_to_end = true}
#define PROGRAM(table, count) .rounds = 32000 / (count), .submissions = 1, .dispatches = (count), .has_table = (table)
#define RECORD(kind, table, count) \
  {.name = "record/" kind "/" #count, .submit = record_program, PROGRAM(table, count)}
#define REPLAY(kind, table, count, how, end_to_end)    \
  {.name = "replay/" kind "/" #count "/" how,          \
   .prepare = record_program,                          \
   .submit = submit_program,                           \
   .floor = (end_to_end) ? NULL : replay_floor,        \
   .is_end_to_end = (end_to_end),                      \
   PROGRAM(table, count)}
#define PROGRAM_CASES(kind, table, count)              \
  RECORD(kind, table, count),                          \
  REPLAY(kind, table, count, "submit", false),         \
  REPLAY(kind, table, count, "end-to-end", true)

const case_t cases[] = {
    SUBMIT(barrier, 64, .floor = barrier_floor),
    END_TO_END(barrier),
    SUBMIT(edge, 64),
    END_TO_END(edge),
    SUBMIT(dispatch, 64, .floor = dispatch_floor),
    END_TO_END(dispatch),
    {.name = "dispatch/chain-512", .submit = submit_dispatch, .rounds = 8, .submissions = 512, .is_end_to_end = true},
    SUBMIT(fill, 32, .floor = dispatch_floor),
    SUBMIT(copy, 32, .floor = dispatch_floor),
    SUBMIT(update, 32),
    SUBMIT(alloca, 32),
    END_TO_END(alloca),
    PROGRAM_CASES("static", false, 1000),
    PROGRAM_CASES("table", true, 1000),
    PROGRAM_CASES("static", false, 10000),
    PROGRAM_CASES("table", true, 10000),
};
const iree_host_size_t case_count = IREE_ARRAYSIZE(cases);
