// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One recording, executed by four threads on two queues, each time with buffers
// of the thread's own and counts of workgroups that the thread has written.
//
// expect executions: OK
// expect right results: 100

#include "probe.h"

enum { THREADS = 4, TIMES = 25, GROUPS = 9 };

static iree_hal_device_t* device;
static iree_hal_command_buffer_t* recording;

typedef struct run_t {
  int thread;
  int right;
  iree_status_t status;
} run_t;

static void* execute(void* data) {
  run_t* run = data;
  iree_hal_buffer_t* target = probe_buffer(device, 8 * GROUPS);
  const iree_hal_buffer_params_t params = {
      .usage = IREE_HAL_BUFFER_USAGE_DEFAULT | IREE_HAL_BUFFER_USAGE_MAPPING |
               IREE_HAL_BUFFER_USAGE_DISPATCH_INDIRECT_PARAMETERS,
      .type = IREE_HAL_MEMORY_TYPE_HOST_LOCAL | IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE,
  };
  iree_hal_buffer_t* counts = NULL;
  REQUIRE(iree_hal_allocator_allocate_buffer(iree_hal_device_allocator(device), params, 64, &counts));
  iree_hal_semaphore_t* done = probe_semaphore(device);
  for (int i = 0; i < TIMES && iree_status_is_ok(run->status); ++i) {
    const uint32_t groups = 1 + (i + run->thread) % GROUPS;
    REQUIRE(iree_hal_buffer_map_zero(target, 0, 8 * GROUPS));
    for (int word = 0; word < 3; ++word) probe_write(counts, 4 + word, word == 0 ? groups : 1);
    const iree_hal_buffer_binding_t bindings[2] = {{target, 0, 8 * GROUPS}, {counts, 16, 12}};
    run->status = iree_hal_device_queue_execute(device, 1 << (i & 1), AT(done, i), AT(done, i + 1), recording,
                                                (iree_hal_buffer_binding_table_t){2, bindings},
                                                IREE_HAL_EXECUTE_FLAG_NONE);
    if (iree_status_is_ok(run->status)) run->status = WAIT(done, i + 1);
    uint32_t written = 0;
    for (int word = 0; word < GROUPS; ++word) written += probe_read(target, 2 * word) == 7;
    run->right += written == groups;
  }
  iree_hal_semaphore_release(done);
  iree_hal_buffer_release(counts);
  iree_hal_buffer_release(target);
  return NULL;
}

PROBE(shared_recording) {
  probe_device_t opened = probe_open(NULL);
  device = opened.device;
  iree_hal_executable_t* kernels = probe_kernels(device);
  REQUIRE(iree_hal_command_buffer_create(device, IREE_HAL_COMMAND_BUFFER_MODE_DEFAULT,
                                         IREE_HAL_COMMAND_CATEGORY_ANY, IREE_HAL_QUEUE_AFFINITY_ANY, 2, &recording));
  REQUIRE(iree_hal_command_buffer_begin(recording));
  const uint32_t seven = 7;
  const iree_hal_buffer_ref_t target = iree_hal_make_indirect_buffer_ref(0, 0, 8 * GROUPS);
  iree_hal_dispatch_config_t config = iree_hal_make_static_dispatch_config(0, 0, 0);
  config.workgroup_size[0] = config.workgroup_size[1] = config.workgroup_size[2] = 1;
  config.workgroup_count_ref = iree_hal_make_indirect_buffer_ref(1, 0, 12);
  REQUIRE(iree_hal_command_buffer_dispatch(recording, kernels, probe_function(kernels, "report"), config,
                                           iree_make_const_byte_span(&seven, sizeof(seven)),
                                           (iree_hal_buffer_ref_list_t){1, &target},
                                           IREE_HAL_DISPATCH_FLAG_DYNAMIC_INDIRECT_PARAMETERS));
  REQUIRE(iree_hal_command_buffer_end(recording));
  run_t runs[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    runs[i] = (run_t){i, 0, iree_ok_status()};
    threads[i] = probe_thread(execute, &runs[i]);
  }
  int right = 0;
  iree_status_t status = iree_ok_status();
  for (int i = 0; i < THREADS; ++i) {
    pthread_join(threads[i], NULL);
    right += runs[i].right;
    status = iree_status_join(status, runs[i].status);
  }
  fact_status("executions", status);
  fact("right results", "%d", right);
  iree_hal_command_buffer_release(recording);
  iree_hal_executable_release(kernels);
  probe_close(&opened);
}
