// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Adds two vectors on the first gfx1100, as any HSA program would: finds agents and memory pools, loads the
// code object that it is given, copies, dispatches through an AQL queue, waits and checks.

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1000, WORKGROUP = 256 };

static void check(hsa_status_t status, const char* what) {
  if (status == HSA_STATUS_SUCCESS) return;
  const char* text = "unknown status";
  hsa_status_string(status, &text);
  fprintf(stderr, "%s: %#x %s\n", what, status, text);
  exit(1);
}
#define CHECK(call) check(call, #call)

static void require(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "not so: %s\n", what);
  exit(1);
}
#define REQUIRE(condition) require(condition, #condition)

typedef struct {
  hsa_agent_t cpu, gpu;
} agents_t;

static hsa_status_t on_agent(hsa_agent_t agent, void* data) {
  agents_t* agents = data;
  char name[64];
  hsa_device_type_t type;
  CHECK(hsa_agent_get_info(agent, HSA_AGENT_INFO_NAME, name));
  CHECK(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
  if (type == HSA_DEVICE_TYPE_CPU && !agents->cpu.handle) agents->cpu = agent;
  if (type == HSA_DEVICE_TYPE_GPU && !strcmp(name, "gfx1100") && !agents->gpu.handle) agents->gpu = agent;
  return HSA_STATUS_SUCCESS;
}

typedef struct {
  uint32_t flags;
  hsa_amd_memory_pool_t pool;
} wanted_pool_t;

// Stops at the first global pool that has all of the flags.
static hsa_status_t on_pool(hsa_amd_memory_pool_t pool, void* data) {
  wanted_pool_t* wanted = data;
  hsa_amd_segment_t segment;
  uint32_t flags = 0;
  bool allowed = false;
  CHECK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
  if (segment != HSA_AMD_SEGMENT_GLOBAL) return HSA_STATUS_SUCCESS;
  CHECK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags));
  CHECK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allowed));
  if (!allowed || (flags & wanted->flags) != wanted->flags) return HSA_STATUS_SUCCESS;
  wanted->pool = pool;
  return HSA_STATUS_INFO_BREAK;
}

static void* allocate(hsa_agent_t owner, uint32_t flags, size_t size, hsa_agent_t user) {
  wanted_pool_t wanted = {flags, {0}};
  hsa_status_t status = hsa_amd_agent_iterate_memory_pools(owner, on_pool, &wanted);
  REQUIRE(status == HSA_STATUS_INFO_BREAK);
  void* memory = NULL;
  CHECK(hsa_amd_memory_pool_allocate(wanted.pool, size, 0, &memory));
  CHECK(hsa_amd_agents_allow_access(1, &user, NULL, memory));
  return memory;
}

static void wait_for_zero(hsa_signal_t signal) {
  hsa_signal_value_t value;
  do {
    value = hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
  } while (value >= 1);
  REQUIRE(value == 0);
}

static void copy(void* target, hsa_agent_t target_agent, const void* source, hsa_agent_t source_agent, size_t size) {
  hsa_signal_t done;
  CHECK(hsa_signal_create(1, 0, NULL, &done));
  CHECK(hsa_amd_memory_async_copy(target, target_agent, source, source_agent, size, 0, NULL, done));
  wait_for_zero(done);
  CHECK(hsa_signal_destroy(done));
}

static void on_queue_error(hsa_status_t status, hsa_queue_t* queue, void* data) {
  (void)data;
  const char* text = "unknown status";
  hsa_status_string(status, &text);
  fprintf(stderr, "queue %llu stopped: %#x %s\n", (unsigned long long)queue->id, status, text);
  exit(1);
}

static void* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  REQUIRE(file != NULL);
  REQUIRE(fseek(file, 0, SEEK_END) == 0);
  *size = (size_t)ftell(file);
  rewind(file);
  void* bytes = malloc(*size);
  REQUIRE(bytes != NULL && fread(bytes, 1, *size, file) == *size);
  fclose(file);
  return bytes;
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  CHECK(hsa_init());
  agents_t agents = {{0}, {0}};
  CHECK(hsa_iterate_agents(on_agent, &agents));
  REQUIRE(agents.cpu.handle != 0);
  REQUIRE(agents.gpu.handle != 0);

  // The kernel.
  size_t size = 0;
  void* bytes = read_file(argv[1], &size);
  hsa_code_object_reader_t reader;
  hsa_executable_t executable;
  hsa_executable_symbol_t symbol;
  CHECK(hsa_code_object_reader_create_from_memory(bytes, size, &reader));
  CHECK(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &executable));
  CHECK(hsa_executable_load_agent_code_object(executable, agents.gpu, reader, NULL, NULL));
  CHECK(hsa_executable_freeze(executable, NULL));
  CHECK(hsa_executable_get_symbol_by_name(executable, "vector_add.kd", &agents.gpu, &symbol));
  uint64_t kernel = 0;
  uint32_t kernarg_size = 0, group_size = 0, private_size = 0;
  CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &kernel));
  CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE, &kernarg_size));
  CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE, &group_size));
  CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE, &private_size));

  // Its data: vectors on the device, filled by way of host memory, and arguments.
  const size_t vector = COUNT * sizeof(float);
  float* staging = allocate(agents.cpu, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED, 3 * vector, agents.gpu);
  float* device = allocate(agents.gpu, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED, 3 * vector, agents.gpu);
  for (int i = 0; i < COUNT; ++i) {
    staging[i] = (float)i;
    staging[COUNT + i] = 0.5f * (float)(COUNT - i);
    staging[2 * COUNT + i] = -1.0f;
  }
  copy(device, agents.gpu, staging, agents.cpu, 3 * vector);
  struct {
    const float *a, *b;
    float* sum;
    uint32_t count;
  } arguments = {device, device + COUNT, device + 2 * COUNT, COUNT};
  REQUIRE(kernarg_size >= 28);
  void* kernarg = allocate(agents.cpu, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT, kernarg_size, agents.gpu);
  memcpy(kernarg, &arguments, 28);

  // The dispatch.
  hsa_queue_t* queue = NULL;
  hsa_signal_t done;
  uint32_t queue_size = 0;
  CHECK(hsa_agent_get_info(agents.gpu, HSA_AGENT_INFO_QUEUE_MIN_SIZE, &queue_size));
  CHECK(hsa_queue_create(agents.gpu, queue_size, HSA_QUEUE_TYPE_SINGLE, on_queue_error, NULL, UINT32_MAX, UINT32_MAX,
                         &queue));
  CHECK(hsa_signal_create(1, 0, NULL, &done));
  uint64_t index = hsa_queue_add_write_index_relaxed(queue, 1);
  REQUIRE(index - hsa_queue_load_read_index_scacquire(queue) < queue->size);
  hsa_kernel_dispatch_packet_t* packet = (hsa_kernel_dispatch_packet_t*)queue->base_address + index % queue->size;
  memset((char*)packet + 4, 0, sizeof(*packet) - 4);
  packet->workgroup_size_x = WORKGROUP;
  packet->workgroup_size_y = packet->workgroup_size_z = 1;
  packet->grid_size_x = COUNT;
  packet->grid_size_y = packet->grid_size_z = 1;
  packet->private_segment_size = private_size;
  packet->group_segment_size = group_size;
  packet->kernel_object = kernel;
  packet->kernarg_address = kernarg;
  packet->completion_signal = done;
  uint32_t header = HSA_PACKET_TYPE_KERNEL_DISPATCH << HSA_PACKET_HEADER_TYPE |
                    HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                    HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;
  uint32_t setup = 1 << HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS;
  __atomic_store_n((uint32_t*)packet, header | setup << 16, __ATOMIC_RELEASE);
  hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)index);
  wait_for_zero(done);

  copy(staging, agents.cpu, device, agents.gpu, 3 * vector);
  for (int i = 0; i < COUNT; ++i) {
    float expected = (float)i + 0.5f * (float)(COUNT - i);
    if (staging[2 * COUNT + i] != expected) {
      fprintf(stderr, "element %d is %g, not %g\n", i, staging[2 * COUNT + i], expected);
      return 1;
    }
  }

  CHECK(hsa_signal_destroy(done));
  CHECK(hsa_queue_destroy(queue));
  CHECK(hsa_amd_memory_pool_free(kernarg));
  CHECK(hsa_amd_memory_pool_free(device));
  CHECK(hsa_amd_memory_pool_free(staging));
  CHECK(hsa_executable_destroy(executable));
  CHECK(hsa_code_object_reader_destroy(reader));
  free(bytes);
  CHECK(hsa_shut_down());
  printf("%d sums are right\n", COUNT);
  return 0;
}
