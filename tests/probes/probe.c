// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The program of all probes:
//
//   probes --driver=amdgpu_rs|amdgpu --folder=<kernels> <probe>
//   probes --list
//
// A fact is a line `fact <name>: <value>` of standard output.

#include "probe.h"

#include <stdarg.h>
#include <time.h>

#include "iree/async/frontier_tracker.h"
#include "iree/async/util/proactor_pool.h"
#include "iree/hal/drivers/init.h"
#include "iree/io/file_contents.h"

static probe_entry_t* entries;
static const char* driver_name = "amdgpu_rs";
static const char* folder = ".";

void probe_register(probe_entry_t* entry) {
  entry->next = entries;
  entries = entry;
}

void probe_require(iree_status_t status, const char* file, int line) {
  if (iree_status_is_ok(status)) return;
  fprintf(stderr, "%s:%d: ", file, line);
  iree_status_fprint(stderr, status);
  iree_status_free(status);
  printf("fact failed at: %s:%d\n", strrchr(file, '/') ? strrchr(file, '/') + 1 : file, line);
  fflush(stdout);
  // Other threads may be in the middle of anything.
  _exit(1);
}

void fact(const char* name, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("fact %s: ", name);
  vprintf(format, arguments);
  printf("\n");
  fflush(stdout);
  va_end(arguments);
}

void fact_status(const char* name, iree_status_t status) {
  fact(name, "%s", iree_status_code_string(iree_status_code(status)));
  if (!iree_status_is_ok(status)) iree_status_fprint(stderr, status);
  iree_status_free(status);
}

void fact_bool(const char* name, bool value) { fact(name, "%s", value ? "yes" : "no"); }

bool probe_is_ours(void) { return strcmp(driver_name, "amdgpu_rs") == 0; }

iree_status_t probe_create(const char* path, const char* options, iree_hal_device_t** out_device) {
  iree_allocator_t allocator = iree_allocator_system();
  iree_string_pair_t pairs[8];
  iree_host_size_t count = 0;
  iree_string_view_t rest = iree_make_cstring_view(options ? options : "");
  while (!iree_string_view_is_empty(rest) && count < IREE_ARRAYSIZE(pairs)) {
    iree_string_view_t option;
    iree_string_view_split(rest, ',', &option, &rest);
    iree_string_view_split(option, '=', &pairs[count].key, &pairs[count].value);
    ++count;
  }
  iree_hal_driver_t* driver = NULL;
  IREE_RETURN_IF_ERROR(iree_hal_driver_registry_try_create(iree_hal_driver_registry_default(),
                                                           iree_make_cstring_view(driver_name), allocator, &driver));
  iree_hal_device_create_params_t params = iree_hal_device_create_params_default();
  iree_status_t status = iree_async_proactor_pool_create(1, NULL, iree_async_proactor_pool_options_default(), allocator,
                                                         &params.proactor_pool);
  if (iree_status_is_ok(status)) {
    status = iree_hal_driver_create_device_by_path(driver, iree_make_cstring_view(driver_name),
                                                   iree_make_cstring_view(path), count, pairs, &params, allocator,
                                                   out_device);
  }
  iree_async_proactor_pool_release(params.proactor_pool);
  iree_hal_driver_release(driver);
  return status;
}

iree_status_t probe_group(iree_hal_device_t* device, iree_hal_device_group_t** out_group) {
  iree_allocator_t allocator = iree_allocator_system();
  iree_async_frontier_tracker_t* tracker = NULL;
  IREE_RETURN_IF_ERROR(
      iree_async_frontier_tracker_create(iree_async_frontier_tracker_options_default(), allocator, &tracker));
  iree_status_t status = iree_hal_device_group_create_from_device(device, tracker, allocator, out_group);
  iree_async_frontier_tracker_release(tracker);
  return status;
}

probe_device_t probe_open(const char* options) {
  probe_device_t device = {NULL, NULL};
  REQUIRE(probe_create("", options, &device.device));
  REQUIRE(probe_group(device.device, &device.group));
  return device;
}

void probe_close(probe_device_t* device) {
  iree_hal_device_release(device->device);
  iree_hal_device_group_release(device->group);
  *device = (probe_device_t){NULL, NULL};
}

iree_hal_semaphore_t* probe_semaphore(iree_hal_device_t* device) {
  iree_hal_semaphore_t* semaphore = NULL;
  REQUIRE(iree_hal_semaphore_create(device, IREE_HAL_QUEUE_AFFINITY_ANY, 0, IREE_HAL_SEMAPHORE_FLAG_DEFAULT,
                                    &semaphore));
  return semaphore;
}

iree_hal_buffer_t* probe_buffer(iree_hal_device_t* device, iree_device_size_t size) {
  const iree_hal_buffer_params_t params = {
      .usage = IREE_HAL_BUFFER_USAGE_DEFAULT | IREE_HAL_BUFFER_USAGE_MAPPING,
      .type = IREE_HAL_MEMORY_TYPE_HOST_LOCAL | IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE,
  };
  iree_hal_buffer_t* buffer = NULL;
  REQUIRE(iree_hal_allocator_allocate_buffer(iree_hal_device_allocator(device), params, size, &buffer));
  REQUIRE(iree_hal_buffer_map_zero(buffer, 0, size));
  return buffer;
}

uint32_t probe_read(iree_hal_buffer_t* buffer, iree_host_size_t word) {
  uint32_t value = 0;
  REQUIRE(iree_hal_buffer_map_read(buffer, word * sizeof(value), &value, sizeof(value)));
  return value;
}

void probe_write(iree_hal_buffer_t* buffer, iree_host_size_t word, uint32_t value) {
  REQUIRE(iree_hal_buffer_map_write(buffer, word * sizeof(value), &value, sizeof(value)));
}

iree_hal_buffer_params_t probe_device_local(void) {
  return (iree_hal_buffer_params_t){
      .usage = IREE_HAL_BUFFER_USAGE_DEFAULT,
      .type = IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL,
  };
}

iree_byte_span_t probe_code(const char* file) {
  char path[4096];
  snprintf(path, sizeof(path), "%s/%s", folder, file);
  iree_io_file_contents_t* contents = NULL;
  REQUIRE(iree_io_file_contents_read(iree_make_cstring_view(path), iree_allocator_system(), &contents));
  iree_byte_span_t code = {malloc(contents->const_buffer.data_length), contents->const_buffer.data_length};
  memcpy(code.data, contents->const_buffer.data, code.data_length);
  iree_io_file_contents_free(contents);
  return code;
}

iree_status_t probe_load(iree_hal_device_t* device, iree_byte_span_t code, const char* format,
                         iree_hal_executable_t** out_executable) {
  iree_hal_executable_cache_t* cache = NULL;
  IREE_RETURN_IF_ERROR(iree_hal_executable_cache_create(device, IREE_SV("probe"), &cache));
  iree_const_byte_span_t data = iree_make_const_byte_span(code.data, code.data_length);
  char inferred[128];
  iree_host_size_t size = 0;
  iree_status_t status = iree_ok_status();
  if (!format) {
    status = iree_hal_executable_cache_infer_format(cache, 0, data, sizeof(inferred), inferred, &size);
    format = inferred;
  }
  if (iree_status_is_ok(status)) {
    iree_hal_executable_params_t params;
    iree_hal_executable_params_initialize(&params);
    params.executable_format = iree_make_cstring_view(format);
    params.executable_data = data;
    status = iree_hal_executable_cache_prepare_executable(cache, &params, out_executable);
  }
  iree_hal_executable_cache_release(cache);
  return status;
}

iree_hal_executable_t* probe_kernels(iree_hal_device_t* device) {
  iree_byte_span_t code = probe_code("kernels.co");
  iree_hal_executable_t* executable = NULL;
  REQUIRE(probe_load(device, code, NULL, &executable));
  free(code.data);
  return executable;
}

iree_hal_executable_function_t probe_function(iree_hal_executable_t* executable, const char* name) {
  iree_hal_executable_function_t function;
  REQUIRE(iree_hal_executable_lookup_function_by_name(executable, iree_make_cstring_view(name), &function));
  return function;
}

iree_status_t probe_dispatch(iree_hal_device_t* device, iree_hal_queue_affinity_t queues,
                             iree_hal_semaphore_list_t waits, iree_hal_semaphore_list_t signals,
                             iree_hal_executable_t* executable, const char* kernel, iree_hal_buffer_t* binding,
                             uint32_t groups, const uint32_t* constant) {
  iree_hal_dispatch_config_t config = iree_hal_make_static_dispatch_config(groups, 1, 1);
  config.workgroup_size[0] = config.workgroup_size[1] = config.workgroup_size[2] = 1;
  iree_hal_buffer_ref_t ref = iree_hal_make_buffer_ref(binding, 0, iree_hal_buffer_byte_length(binding));
  return iree_hal_device_queue_dispatch(device, queues, waits, signals, executable,
                                        probe_function(executable, kernel), config,
                                        iree_make_const_byte_span(constant, constant ? sizeof(*constant) : 0),
                                        (iree_hal_buffer_ref_list_t){1, &ref}, IREE_HAL_DISPATCH_FLAG_NONE);
}

probe_hold_t probe_hold(iree_hal_device_t* device, iree_hal_queue_affinity_t queues,
                        iree_hal_semaphore_list_t signals) {
  probe_hold_t hold = {probe_kernels(device), probe_buffer(device, sizeof(uint32_t))};
  REQUIRE(probe_dispatch(device, queues, NONE, signals, hold.executable, "hold", hold.flag, 1, NULL));
  return hold;
}

void probe_release(probe_hold_t* hold) { probe_write(hold->flag, 0, 1); }

void probe_free_hold(probe_hold_t* hold) {
  iree_hal_buffer_release(hold->flag);
  iree_hal_executable_release(hold->executable);
}

// Names that are kept once each and in order.
static struct {
  char names[32][48];
  int count;
} contents;

static void sink_destroy(iree_hal_profile_sink_t* sink) { (void)sink; }

static iree_status_t sink_begin(iree_hal_profile_sink_t* sink, const iree_hal_profile_chunk_metadata_t* metadata) {
  return iree_ok_status();
}

static iree_status_t sink_write(iree_hal_profile_sink_t* sink, const iree_hal_profile_chunk_metadata_t* metadata,
                                iree_host_size_t count, const iree_const_byte_span_t* spans) {
  // `application/vnd.iree.hal.profile.devices`
  iree_string_view_t name = metadata->content_type;
  name = iree_string_view_substr(name, iree_string_view_find_last_of(name, IREE_SV("."), IREE_STRING_VIEW_NPOS) + 1,
                                 IREE_HOST_SIZE_MAX);
  int place = 0, order = 1;
  while (place < contents.count &&
         (order = iree_string_view_compare(iree_make_cstring_view(contents.names[place]), name)) < 0) {
    ++place;
  }
  if (place < contents.count && order == 0) return iree_ok_status();
  if (contents.count == IREE_ARRAYSIZE(contents.names)) return iree_make_status(IREE_STATUS_RESOURCE_EXHAUSTED);
  memmove(contents.names[place + 1], contents.names[place], (contents.count - place) * sizeof(contents.names[0]));
  snprintf(contents.names[place], sizeof(contents.names[0]), "%.*s", (int)name.size, name.data);
  ++contents.count;
  return iree_ok_status();
}

static iree_status_t sink_end(iree_hal_profile_sink_t* sink, const iree_hal_profile_chunk_metadata_t* metadata,
                              iree_status_code_t code) {
  return iree_ok_status();
}

iree_hal_profile_sink_t* probe_sink(void) {
  static const iree_hal_profile_sink_vtable_t vtable = {sink_destroy, sink_begin, sink_write, sink_end};
  static iree_hal_resource_t sink;
  if (!sink.vtable) iree_hal_resource_initialize(&vtable, &sink);
  contents.count = 0;
  return (iree_hal_profile_sink_t*)&sink;
}

const char* probe_sink_contents(void) {
  static char text[sizeof(contents.names)];
  text[0] = 0;
  for (int i = 0; i < contents.count; ++i) {
    if (i > 0) strcat(text, " ");
    strcat(text, contents.names[i]);
  }
  return text;
}

pthread_t probe_thread(void* (*call)(void*), void* data) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, call, data) != 0) {
    REQUIRE(iree_make_status(IREE_STATUS_RESOURCE_EXHAUSTED, "no thread"));
  }
  return thread;
}

int64_t probe_now_ms(void) {
  struct timespec time = {0};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

int64_t probe_resident_kib(void) {
  long pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
  if (file) fclose(file);
  return (int64_t)pages * sysconf(_SC_PAGESIZE) / 1024;
}

int main(int argc, char** argv) {
  const char* wanted = NULL;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--list") == 0) {
      for (probe_entry_t* entry = entries; entry; entry = entry->next) printf("%s\n", entry->name);
      return 0;
    }
    if (strncmp(argv[i], "--driver=", 9) == 0) {
      driver_name = argv[i] + 9;
    } else if (strncmp(argv[i], "--folder=", 9) == 0) {
      folder = argv[i] + 9;
    } else {
      wanted = argv[i];
    }
  }
  REQUIRE(iree_hal_register_all_available_drivers(iree_hal_driver_registry_default()));
  for (probe_entry_t* entry = entries; entry; entry = entry->next) {
    if (wanted && strcmp(entry->name, wanted) == 0) {
      entry->run();
      return 0;
    }
  }
  fprintf(stderr, "no probe `%s`: `--list` names them\n", wanted ? wanted : "");
  return 2;
}
