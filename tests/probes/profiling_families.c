// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A profiling session of each data family around an allocation, a fill and a
// dispatch: how it ends, and which families, by their bits, write each kind of
// content. A bit that IREE gives no meaning is a fact if a driver does something
// else with it than with bit 63, as with a family of a later IREE.
//
// expect[amdgpu_rs] bit 63: INVALID_ARGUMENT -- refused by name
// expect[amdgpu] bit 63: OK -- ignored
// expect mode counter-ranges: OK
// expect mode command-region-events: OK
// expect[amdgpu_rs] mode device-metrics: OK -- memory at least, from HSA
// expect[amdgpu] mode device-metrics: NOT_FOUND -- the machine has no files of this GPU
// expect mode memory-events: OK
// expect mode executable-traces: OK
// expect mode executable-metadata: OK
// expect mode counters: OK
// expect mode dispatch-events: OK
// expect mode device-queue-events: OK
// expect[amdgpu_rs] mode host-execution: OK -- host calls and file transfers have spans
// expect[amdgpu] mode host-execution: UNIMPLEMENTED -- it has no such events
// expect mode queue-events: OK
// expect[amdgpu_rs] content clock-correlations: 2 3 4 6 9 10 -- regions have host times
// expect[amdgpu] content clock-correlations: 2 3 4 6 10 -- regions have no events
// expect content counter-samples: 4 10
// expect content counter-sets: 4 10
// expect content counters: 4 10
// expect[amdgpu_rs] content devices: 0 1 2 3 4 5 6 7 8 9 10 -- with host spans and metrics
// expect[amdgpu] content devices: 0 2 3 4 5 6 7 9 10 -- without the two modes that it refuses
// expect[amdgpu_rs] content executable-functions: 0 1 2 3 4 5 6 7 8 9 10 -- with host spans and metrics
// expect[amdgpu] content executable-functions: 0 2 3 4 5 6 7 9 10 -- without the two modes that it refuses
// expect[amdgpu_rs] content executables: 0 1 2 3 4 5 6 7 8 9 10 -- with host spans and metrics
// expect[amdgpu] content executables: 0 2 3 4 5 6 7 9 10 -- without the two modes that it refuses
// expect[amdgpu_rs] content queues: 0 1 2 3 4 5 6 7 8 9 10 -- with host spans and metrics
// expect[amdgpu] content queues: 0 2 3 4 5 6 7 9 10 -- without the two modes that it refuses
// expect[amdgpu_rs] content device-metric-descriptors: 8 -- from HSA where there are no files
// expect[amdgpu_rs] content device-metric-samples: 8 -- from HSA where there are no files
// expect[amdgpu_rs] content device-metric-sources: 8 -- from HSA where there are no files
// expect content memory-events: 7
// expect content dispatch-events: 3 4 6
// expect content event-relationships: 2 3 4 6
// expect content executable-code-object-loads: 5 6
// expect content executable-code-objects: 5 6
// expect content executable-traces: 6
// expect content queue-device-events: 2
// expect[amdgpu_rs] content host-execution-events: 1 -- host calls and file transfers have spans
// expect content queue-events: 0

#include "probe.h"

typedef struct rig_t {
  iree_hal_device_t* device;
  iree_hal_executable_t* executable;
  iree_hal_buffer_t* buffer;
} rig_t;

static iree_status_t work(rig_t* rig) {
  const uint32_t seven = 7;
  iree_hal_semaphore_t* done = probe_semaphore(rig->device);
  iree_status_t status = iree_hal_device_queue_fill(rig->device, 1, NONE, AT(done, 1), rig->buffer, 0, 64, &seven,
                                                    sizeof(seven), IREE_HAL_FILL_FLAG_NONE);
  if (iree_status_is_ok(status)) {
    status = probe_dispatch(rig->device, 1, AT(done, 1), AT(done, 2), rig->executable, "report", rig->buffer, 4,
                            &seven);
  }
  iree_hal_buffer_t* memory = NULL;
  if (iree_status_is_ok(status)) {
    status = iree_hal_device_queue_alloca(rig->device, 1, AT(done, 2), AT(done, 3), NULL, probe_device_local(), 64,
                                          IREE_HAL_ALLOCA_FLAG_NONE, &memory);
  }
  if (iree_status_is_ok(status)) {
    status = iree_hal_device_queue_dealloca(rig->device, 1, AT(done, 3), AT(done, 4), memory,
                                            IREE_HAL_DEALLOCA_FLAG_NONE);
  }
  if (iree_status_is_ok(status)) status = WAIT(done, 4);
  iree_hal_buffer_release(memory);
  iree_hal_semaphore_release(done);
  return status;
}

static iree_status_t session(rig_t* rig, int bit) {
  const iree_string_view_t counter = IREE_SV("SQ_WAVES");
  const iree_hal_profile_counter_set_selection_t set = {
      .name = IREE_SV("waves"), .counter_name_count = 1, .counter_names = &counter};
  iree_hal_device_profiling_options_t options;
  memset(&options, 0, sizeof(options));
  options.data_families = UINT64_C(1) << bit;
  options.sink = probe_sink();
  const uint64_t of_counters =
      IREE_HAL_DEVICE_PROFILING_DATA_COUNTER_SAMPLES | IREE_HAL_DEVICE_PROFILING_DATA_COUNTER_RANGES;
  if (options.data_families & of_counters) {
    options.counter_set_count = 1;
    options.counter_sets = &set;
  }
  if (options.data_families & IREE_HAL_DEVICE_PROFILING_DATA_EXECUTABLE_TRACES) {
    options.capture_filter.flags = IREE_HAL_PROFILE_CAPTURE_FILTER_FLAG_EXECUTABLE_FUNCTION_PATTERN;
    options.capture_filter.executable_function_pattern = IREE_SV("report");
  }
  IREE_RETURN_IF_ERROR(iree_hal_device_profiling_begin(rig->device, &options));
  IREE_RETURN_IF_ERROR(work(rig));
  return iree_hal_device_profiling_end(rig->device);
}

// A kind of content and the families that write it.
typedef struct kind_t {
  char name[48];
  uint32_t bits;
} kind_t;

// Adds the sink's kinds to |kinds|, of which the last stays empty.
static void note(kind_t* kinds, int capacity, int bit) {
  char text[1024];
  snprintf(text, sizeof(text), "%s", probe_sink_contents());
  char* rest = NULL;
  for (char* name = strtok_r(text, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
    int i = 0;
    while (i < capacity - 2 && *kinds[i].name && strcmp(kinds[i].name, name) != 0) ++i;
    snprintf(kinds[i].name, sizeof(kinds[i].name), "%s", name);
    kinds[i].bits |= UINT32_C(1) << bit;
  }
}

PROBE(profiling_families) {
  // As IREE's tools name them.
  static const char* const modes[] = {
      "queue-events",        "host-execution",    "device-queue-events", "dispatch-events", "counters",
      "executable-metadata", "executable-traces", "memory-events",       "device-metrics",  "command-region-events",
      "counter-ranges",
  };
  probe_device_t device = probe_open(NULL);
  rig_t rig = {device.device, probe_kernels(device.device), probe_buffer(device.device, 64)};
  kind_t kinds[32] = {{{0}}};
  char unknown[1024] = {0};
  for (int bit = 63; bit >= 0; --bit) {
    iree_status_t status = session(&rig, bit);
    char text[1024], name[64];
    snprintf(text, sizeof(text), "%s %s", iree_status_code_string(iree_status_code(status)), probe_sink_contents());
    if (bit < (int)IREE_ARRAYSIZE(modes)) {
      note(kinds, IREE_ARRAYSIZE(kinds), bit);
      snprintf(name, sizeof(name), "mode %s", modes[bit]);
      fact_status(name, status);
    } else if (strcmp(unknown, text) != 0) {
      snprintf(name, sizeof(name), "bit %d", bit);
      fact_status(name, status);
    } else {
      iree_status_free(status);
    }
    if (bit == 63) memcpy(unknown, text, sizeof(unknown));
  }
  for (int i = 0; *kinds[i].name; ++i) {
    char name[64], bits[64] = {0};
    snprintf(name, sizeof(name), "content %s", kinds[i].name);
    for (int bit = 0; bit < (int)IREE_ARRAYSIZE(modes); ++bit) {
      const size_t length = strlen(bits);
      if (kinds[i].bits >> bit & 1) snprintf(bits + length, sizeof(bits) - length, length ? " %d" : "%d", bit);
    }
    fact(name, "%s", bits);
  }
  iree_hal_executable_release(rig.executable);
  iree_hal_buffer_release(rig.buffer);
  probe_close(&device);
}
