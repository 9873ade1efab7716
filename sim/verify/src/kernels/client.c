// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Runs random kernels on the first GPU and on the host, and compares: client CODE_OBJECT [FIRST [COUNT]]. It is linked
// with the host's code of the same kernels. Prints `run NAME` before each kernel, and `differs NAME: …` for the first
// word that is not the same.

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

extern const kernel kernels[];
extern const u32 kernel_count;

static void check(hsa_status_t status, const char* what) {
  if (status == HSA_STATUS_SUCCESS) return;
  const char* text = "unknown status";
  hsa_status_string(status, &text);
  fprintf(stderr, "%s: %#x %s\n", what, status, text);
  exit(2);
}
#define CHECK(call) check(call, #call)

static hsa_agent_t cpu, gpu;
static hsa_amd_memory_pool_t host_pool, gpu_pool;

static hsa_status_t on_agent(hsa_agent_t agent, void* data) {
  (void)data;
  hsa_device_type_t type;
  CHECK(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
  if (type == HSA_DEVICE_TYPE_CPU && !cpu.handle) cpu = agent;
  if (type == HSA_DEVICE_TYPE_GPU && !gpu.handle) gpu = agent;
  return HSA_STATUS_SUCCESS;
}

// Takes the first pool of memory: for kernel arguments if it is the host's, and coarse-grained if it is the GPU's.
static hsa_status_t on_pool(hsa_amd_memory_pool_t pool, void* data) {
  hsa_amd_memory_pool_t* found = data;
  const uint32_t wanted = found == &host_pool ? HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT
                                              : HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
  hsa_amd_segment_t segment;
  uint32_t flags = 0;
  CHECK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
  if (segment != HSA_AMD_SEGMENT_GLOBAL) return HSA_STATUS_SUCCESS;
  CHECK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags));
  if (!(flags & wanted)) return HSA_STATUS_SUCCESS;
  *found = pool;
  return HSA_STATUS_INFO_BREAK;
}

static void* allocate(hsa_amd_memory_pool_t pool, size_t size) {
  void* memory = NULL;
  CHECK(hsa_amd_memory_pool_allocate(pool, size, 0, &memory));
  CHECK(hsa_amd_agents_allow_access(1, &gpu, NULL, memory));
  return memory;
}

static void wait_for_zero(hsa_signal_t signal) {
  while (hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED) >= 1) {
  }
}

static void copy(void* target, hsa_agent_t target_agent, const void* source, hsa_agent_t source_agent, size_t size) {
  hsa_signal_t done;
  CHECK(hsa_signal_create(1, 0, NULL, &done));
  CHECK(hsa_amd_memory_async_copy(target, target_agent, source, source_agent, size, 0, NULL, done));
  wait_for_zero(done);
  CHECK(hsa_signal_destroy(done));
}

static void on_queue_error(hsa_status_t status, hsa_queue_t* queue, void* data) {
  (void)queue, (void)data;
  const char* text = "unknown status";
  hsa_status_string(status, &text);
  fprintf(stderr, "the queue stopped: %#x %s\n", status, text);
  // The stopped kernel still uses the memory of the process.
  _Exit(3);
}

static void* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) exit(2);
  *size = (size_t)ftell(file);
  rewind(file);
  void* bytes = malloc(*size);
  if (!bytes || fread(bytes, 1, *size, file) != *size) exit(2);
  fclose(file);
  return bytes;
}

// Words of all kinds: any bits, small numbers, and floats of the three widths, ordinary and at the edges.
static void fill_inputs(u64* in) {
  static const u64 edges[] = {0x8000000000000000, 0x7fffffffffffffff, 0x0000000100000001, 0x7ff0000000000000, 0x8000000000000001,
                              0x7f8000003f800000, 0x00000001ff7fffff, 0x3c0003ff7bff8001, 0xfc007c0080000400, 0xffffffffffffffff};
  u64 random = 0x9e3779b97f4a7c15;
  for (u32 n = 0; n < INPUTS; ++n) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    const u64 small = random >> 56, sign = random << 63;
    switch (n % 6) {
      case 0: in[n] = edges[small % 10]; break;
      case 1: in[n] = small; break;
      case 2: in[n] = sign | bits_f64((f64)(random >> 40) / 4096.0); break;
      case 3: in[n] = sign | (u64)bits_f32((f32)small / 16.0f) << 32 | bits_f32((f32)(i8)small * 0.75f); break;
      case 4: in[n] = (random & 0x83ff83ff83ff83ff) + 0x3c00380040003000; break;
      default: in[n] = random;
    }
  }
}

static u64 input(const u64* in, u32 item, u32 n) { return in[(item * 41 + n) % INPUTS]; }

// A work-item's state at the beginning.
static void fill_state(const u64* in, u32 item, state* s) {
#define INTEGER(type, n) \
  s->type##_0 = (type)input(in, item, n); \
  s->type##_1 = (type)input(in, item, n + 1);
#define FLOATING(type, n)                              \
  s->type##_0 = of_bits_##type(bits_##type((type)(i8)input(in, item, n)) + (input(in, item, n + 1) & 3)); \
  s->type##_1 = of_bits_##type(input(in, item, n + 1));
  INTEGER(u8, 0) INTEGER(i8, 2) INTEGER(u16, 4) INTEGER(i16, 6) INTEGER(u32, 8) INTEGER(i32, 10) INTEGER(u64, 12) INTEGER(i64, 14)
  FLOATING(f16, 16) FLOATING(f32, 18) FLOATING(f64, 20)
#define PAIR(type, n)                                          \
  s->type##x2_0 = (type##x2){s->type##_1, (type)(s->type##_0 * n)}; \
  s->type##x2_1 = (type##x2){n, s->type##_0};
#define QUAD(type, n)                                                                       \
  s->type##x4_0 = (type##x4){s->type##_1, s->type##_0, (type)(s->type##_0 + n), n};         \
  s->type##x4_1 = (type##x4){n, s->type##_0, (type)(s->type##_0 & 15), s->type##_1};
  PAIR(u16, 3) PAIR(u32, 5) PAIR(u64, 7)
  QUAD(u8, 3) QUAD(u16, 5) QUAD(u32, 6)
  s->i16x2_0 = (i16x2)s->u16x2_1, s->i16x2_1 = (i16x2)s->u16x2_0;
  s->i32x2_0 = (i32x2)s->u32x2_1, s->i32x2_1 = (i32x2)s->u32x2_0;
  s->i64x2_0 = (i64x2)s->u64x2_1, s->i64x2_1 = (i64x2)s->u64x2_0;
  s->i8x4_0 = (i8x4)s->u8x4_1, s->i8x4_1 = (i8x4)s->u8x4_0;
  s->i16x4_0 = (i16x4)s->u16x4_1, s->i16x4_1 = (i16x4)s->u16x4_0;
  s->i32x4_0 = (i32x4)s->u32x4_1, s->i32x4_1 = (i32x4)s->u32x4_0;
#define FLOATS(type)                                                                                            \
  s->type##x2_0 = (type##x2){s->type##_0, (type)2.5}, s->type##x2_1 = (type##x2){s->type##_1, s->type##_0};
  FLOATS(f16) FLOATS(f32) FLOATS(f64)
  s->f16x4_0 = s->f16x2_0.xyyx, s->f16x4_1 = s->f16x2_1.yxyx;
  s->f32x4_0 = s->f32x2_0.xyyx, s->f32x4_1 = s->f32x2_1.yxyx;
  for (u32 n = 0; n < 8; ++n) {
    s->words[n] = (u32)input(in, item, 24 + n);
    s->shorts[n] = (u16)input(in, item, 30 + n);
  }
}

// Initial value of a word for atomics: the operation's neutral element.
static u64 first_of_cell(u32 cell) {
  switch (cell) {
    case 1:
    case 4: return 0xffffffff;
    case 6: return 0x7fffffff;
    case 7: return 0x80000000;
    case 11: return 0x7fffffffffffffff;
    default: return 0;
  }
}

// Reports the place and the values of the first different word.
static int compare(const char* name, const char* what, const u64* got, const u64* wanted, size_t words, u32 row) {
  for (size_t n = 0; n < words; ++n) {
    if (got[n] == wanted[n]) continue;
    printf("differs %s: %s %zu, byte %zu: %016lx on the GPU, %016lx on the host\n", name, what, n / row, n % row * 8, got[n], wanted[n]);
    return 1;
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const u32 first = argc > 2 ? (u32)atoi(argv[2]) : 0, last = argc > 3 ? first + (u32)atoi(argv[3]) : kernel_count;
  CHECK(hsa_init());
  CHECK(hsa_iterate_agents(on_agent, NULL));
  if (!cpu.handle || !gpu.handle) return 2;
  hsa_amd_agent_iterate_memory_pools(cpu, on_pool, &host_pool);
  hsa_amd_agent_iterate_memory_pools(gpu, on_pool, &gpu_pool);

  size_t size = 0;
  void* bytes = read_file(argv[1], &size);
  hsa_code_object_reader_t reader;
  hsa_executable_t executable;
  CHECK(hsa_code_object_reader_create_from_memory(bytes, size, &reader));
  CHECK(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &executable));
  CHECK(hsa_executable_load_agent_code_object(executable, gpu, reader, NULL, NULL));
  CHECK(hsa_executable_freeze(executable, NULL));
  hsa_queue_t* queue = NULL;
  hsa_signal_t done;
  CHECK(hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_SINGLE, on_queue_error, NULL, UINT32_MAX, UINT32_MAX, &queue));
  CHECK(hsa_signal_create(1, 0, NULL, &done));

  int different = 0;
  for (u32 n = first; n < last && n < kernel_count; ++n) {
    const kernel* k = &kernels[n];
    printf("run %s\n", k->name);
    fflush(stdout);
    // Inputs, rows of work-items and words for atomics, one after the other.
    const size_t rows = (size_t)ROW * k->group_size * k->groups, cells = (size_t)CELLS * (1 + k->groups), words = INPUTS + rows + cells;
    u64* host = allocate(host_pool, 8 * words);
    u64* wanted = aligned_alloc(64, 64 * (words / 8 + 1));
    memset(wanted, 0, 8 * words);
    u64* device = allocate(gpu_pool, 8 * words);
    fill_inputs(wanted);
    for (u32 item = 0; item < k->group_size * k->groups; ++item) {
      fill_state(wanted, item, (state*)(wanted + INPUTS + (size_t)ROW * item + SCRATCH));
    }
    for (u32 cell = 0; cell < cells; ++cell) wanted[INPUTS + rows + cell] = first_of_cell(cell % CELLS);
    memcpy(host, wanted, 8 * words);
    copy(device, gpu, host, cpu, 8 * words);
    const u32 arg32 = 0x12345 * n + 7;
    const u64 arg64 = 0x123456789abcdefull * (n + 1);
    const f32 argf = 0.375f * (f32)n - 1.0f;
    k->run(wanted, wanted + INPUTS, wanted + INPUTS + rows, arg32, arg64, argf, k->groups);

    char symbol_name[64];
    snprintf(symbol_name, sizeof(symbol_name), "%s.kd", k->name);
    hsa_executable_symbol_t symbol;
    uint64_t object = 0;
    uint32_t kernarg_size = 0, group_size = 0, private_size = 0;
    CHECK(hsa_executable_get_symbol_by_name(executable, symbol_name, &gpu, &symbol));
    CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &object));
    CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE, &kernarg_size));
    CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE, &group_size));
    CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE, &private_size));
    struct {
      const u64* in;
      u64 *out, *cells;
      u32 arg32;
      u64 arg64;
      f32 argf;
    } arguments = {device, device + INPUTS, device + INPUTS + rows, arg32, arg64, argf};
    void* kernarg = allocate(host_pool, kernarg_size < 64 ? 64 : kernarg_size);
    memset(kernarg, 0, kernarg_size);
    memcpy(kernarg, &arguments, sizeof(arguments));

    hsa_signal_store_relaxed(done, 1);
    uint64_t index = hsa_queue_add_write_index_relaxed(queue, 1);
    hsa_kernel_dispatch_packet_t* packet = (hsa_kernel_dispatch_packet_t*)queue->base_address + index % queue->size;
    memset((char*)packet + 4, 0, sizeof(*packet) - 4);
    packet->workgroup_size_x = (uint16_t)k->group_size;
    packet->workgroup_size_y = packet->workgroup_size_z = 1;
    packet->grid_size_x = k->group_size * k->groups;
    packet->grid_size_y = packet->grid_size_z = 1;
    packet->private_segment_size = private_size;
    packet->group_segment_size = group_size;
    packet->kernel_object = object;
    packet->kernarg_address = kernarg;
    packet->completion_signal = done;
    uint32_t header = HSA_PACKET_TYPE_KERNEL_DISPATCH << HSA_PACKET_HEADER_TYPE |
                      HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                      HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;
    uint32_t setup = 1 << HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS;
    __atomic_store_n((uint32_t*)packet, header | setup << 16, __ATOMIC_RELEASE);
    hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)index);
    wait_for_zero(done);

    copy(host, cpu, device, gpu, 8 * words);
    different |= compare(k->name, "work-item", host + INPUTS, wanted + INPUTS, rows, ROW) ||
                 compare(k->name, "atomics", host + INPUTS + rows, wanted + INPUTS + rows, cells, CELLS);
    CHECK(hsa_amd_memory_pool_free(kernarg));
    CHECK(hsa_amd_memory_pool_free(device));
    CHECK(hsa_amd_memory_pool_free(host));
    free(wanted);
  }
  CHECK(hsa_signal_destroy(done));
  CHECK(hsa_queue_destroy(queue));
  CHECK(hsa_executable_destroy(executable));
  CHECK(hsa_code_object_reader_destroy(reader));
  free(bytes);
  CHECK(hsa_shut_down());
  return different;
}
