// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The environment variables that a driver reads until it has counted waves.
//
// expect variables: IREE_HAL_AMDGPU_LIBAQLPROFILE_PATH IREE_HAL_AMDGPU_LIBHSA_PATH

#include "probe.h"

extern char** environ;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const char* names[16];
static int count;

// Notes a variable of the drivers, once and in order.
static void note(const char* name) {
  if (strncmp(name, "IREE_HAL_", strlen("IREE_HAL_")) != 0) return;
  pthread_mutex_lock(&mutex);
  int place = 0;
  while (place < count && strcmp(names[place], name) < 0) ++place;
  const bool is_known = place < count && strcmp(names[place], name) == 0;
  if (!is_known && count < (int)IREE_ARRAYSIZE(names)) {
    memmove(&names[place + 1], &names[place], (count - place) * sizeof(names[0]));
    names[place] = strdup(name);
    ++count;
  }
  pthread_mutex_unlock(&mutex);
}

// In the place of libc's for all code that is linked into this program, which both drivers are.
char* getenv(const char* name) {
  note(name);
  const size_t length = strlen(name);
  for (char** entry = environ; entry && *entry; ++entry) {
    if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') return *entry + length + 1;
  }
  return NULL;
}

PROBE(variables) {
  probe_device_t device = probe_open(NULL);
  const iree_string_view_t counter = IREE_SV("SQ_WAVES");
  const iree_hal_profile_counter_set_selection_t set = {
      .name = IREE_SV("waves"), .counter_name_count = 1, .counter_names = &counter};
  iree_hal_device_profiling_options_t options;
  memset(&options, 0, sizeof(options));
  options.data_families = IREE_HAL_DEVICE_PROFILING_DATA_COUNTER_SAMPLES;
  options.sink = probe_sink();
  options.counter_set_count = 1;
  options.counter_sets = &set;
  REQUIRE(iree_hal_device_profiling_begin(device.device, &options));
  REQUIRE(iree_hal_device_profiling_end(device.device));
  probe_close(&device);
  char list[1024] = {0};
  for (int i = 0; i < count; ++i) {
    if (i > 0) strcat(list, " ");
    strncat(list, names[i], 60);
  }
  fact("variables", "%s", list);
}
