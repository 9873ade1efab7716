// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program against the embedding API of IREE's C driver. It is compiled twice:
// over the C driver's headers (amdgpu.c) and over amdgpu_rs/amdgpu_api.h
// (amdgpu_rs.c), which define EMBEDDING_PROGRAM as the name of its function.

#include "../probe.h"
#include "iree/async/util/proactor_pool.h"

static iree_status_t embedding_params(iree_hal_device_create_params_t* out_params) {
  *out_params = iree_hal_device_create_params_default();
  return iree_async_proactor_pool_create(1, NULL, iree_async_proactor_pool_options_default(), iree_allocator_system(),
                                         &out_params->proactor_pool);
}

static void embedding_fill(const char* name, iree_hal_device_t* device) {
  iree_hal_device_group_t* group = NULL;
  REQUIRE(probe_group(device, &group));
  iree_hal_semaphore_t* done = probe_semaphore(device);
  iree_hal_buffer_t* buffer = probe_buffer(device, 64);
  const uint32_t pattern = 7;
  REQUIRE(iree_hal_device_queue_fill(device, IREE_HAL_QUEUE_AFFINITY_ANY, NONE, AT(done, 1), buffer, 0, 64, &pattern,
                                     sizeof(pattern), IREE_HAL_FILL_FLAG_NONE));
  REQUIRE(WAIT(done, 1));
  fact(name, "%u", probe_read(buffer, 3));
  iree_hal_buffer_release(buffer);
  iree_hal_semaphore_release(done);
  iree_hal_device_release(device);
  iree_hal_device_group_release(group);
}

// A driver and the device that it makes at a path.
static void embedding_driver(void) {
  iree_allocator_t allocator = iree_allocator_system();
  iree_hal_amdgpu_driver_options_t options;
  iree_hal_amdgpu_driver_options_initialize(&options);
  options.default_device_options.default_pool.range_length = 1024 * 1024;
  const iree_string_pair_t pair = iree_make_cstring_pair("key", "value");
  const iree_string_pair_list_t pairs = {1, &pair};
  fact_status("options of a driver as text", iree_hal_amdgpu_driver_options_parse(&options, pairs));
  fact_status("options of a device as text",
              iree_hal_amdgpu_logical_device_options_parse(&options.default_device_options, pairs));
  iree_hal_driver_t* driver = NULL;
  REQUIRE(iree_hal_amdgpu_driver_create(IREE_SV("amdgpu"), &options, allocator, &driver));
  iree_host_size_t count = 0;
  iree_hal_device_info_t* infos = NULL;
  REQUIRE(iree_hal_driver_query_available_devices(driver, allocator, &count, &infos));
  fact("devices", "%zu", count);
  iree_allocator_free(allocator, infos);
  iree_hal_device_create_params_t params;
  REQUIRE(embedding_params(&params));
  iree_hal_device_t* device = NULL;
  REQUIRE(iree_hal_driver_create_device_by_path(driver, IREE_SV("amdgpu"), IREE_SV("0"), 0, NULL, &params, allocator,
                                                &device));
  iree_async_proactor_pool_release(params.proactor_pool);
  iree_hal_driver_release(driver);
  embedding_fill("filled by a driver's device", device);
  options.default_device_options.queue_placement = IREE_HAL_AMDGPU_QUEUE_PLACEMENT_DEVICE;
  driver = NULL;
  fact_status("queues on the device", iree_hal_amdgpu_driver_create(IREE_SV("amdgpu"), &options, allocator, &driver));
  iree_hal_driver_release(driver);
}

// A device without a driver.
static void embedding_device(void) {
  iree_allocator_t allocator = iree_allocator_system();
  iree_hal_amdgpu_libhsa_t libhsa;
  REQUIRE(iree_hal_amdgpu_libhsa_initialize(IREE_HAL_AMDGPU_LIBHSA_FLAG_NONE, iree_string_view_list_empty(), allocator,
                                            &libhsa));
  iree_hal_amdgpu_topology_t topology;
  REQUIRE(iree_hal_amdgpu_topology_initialize_from_path(&libhsa, IREE_SV("0"), &topology));
  topology.gpu_agent_queue_count = 1;
  fact_status("the topology", iree_hal_amdgpu_topology_verify(&topology, &libhsa));
  iree_hal_amdgpu_logical_device_options_t options;
  iree_hal_amdgpu_logical_device_options_initialize(&options);
  iree_hal_device_create_params_t params;
  REQUIRE(embedding_params(&params));
  iree_hal_device_t* device = NULL;
  REQUIRE(iree_hal_amdgpu_logical_device_create(IREE_SV("embedded"), &options, &libhsa, &topology, &params, allocator,
                                                &device));
  iree_async_proactor_pool_release(params.proactor_pool);
  iree_hal_amdgpu_topology_deinitialize(&topology);
  iree_hal_amdgpu_libhsa_deinitialize(&libhsa);
  const iree_string_view_t id = iree_hal_device_id(device);
  fact("its name", "%.*s", (int)id.size, id.data);
  int64_t queues = 0;
  REQUIRE(iree_hal_device_query_i64(device, IREE_SV("hal.device"), IREE_SV("concurrency"), &queues));
  fact("its queues", "%d", (int)queues);
  embedding_fill("filled by a device without a driver", device);
}

void EMBEDDING_PROGRAM(void) {
  iree_hal_driver_registry_t* registry = NULL;
  REQUIRE(iree_hal_driver_registry_allocate(iree_allocator_system(), &registry));
  fact_status("registered", iree_hal_amdgpu_driver_module_register(registry));
  iree_hal_driver_registry_free(registry);
  embedding_driver();
  embedding_device();
}
