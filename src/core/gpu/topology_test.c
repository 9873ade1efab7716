// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An HSA runtime that only answers questions about its agents: two CPUs (1, 2), and as GPUs two gfx1100 (10, 11) and
// two gfx942 (12, 13), which have neither a UUID nor fine-grained memory, and whose nearest CPU is not known. Pool
// handles are the agent's handle times 10, plus the kind.

#include <stdint.h>
#include <string.h>

#ifndef GPUS
#define GPUS 4
#endif

enum { OK = 0, INVALID = 0x1001 };
enum { COARSE = 0, FINE = 1, KERNARG = 2, GROUP = 3 };
typedef struct { uint64_t handle; } handle_t;
typedef unsigned (*callback_t)(handle_t, void *);

unsigned hsa_init(void) { return OK; }
unsigned hsa_shut_down(void) { return OK; }

static unsigned put(void *value, uint64_t number, int size) {
  memcpy(value, &number, size);
  return OK;
}

static unsigned put_text(void *value, const char *text, int size) {
  strncpy(value, text, size);
  return OK;
}

unsigned hsa_system_get_info(unsigned attribute, void *value) {
  switch (attribute) {
    case 0: case 1: return put(value, 1, 2);
    case 3: return put(value, 100000000, 8);
    case 5: return put(value, 0, 4);
    case 6: return put(value, 1, 4);
    case 0x200: return put(value, (uint64_t)"1.14.0.60204", 8);
    case 0x207: return put(value, 1, 2);
    case 0x208: return put(value, 6, 2);
    default: return INVALID;
  }
}

unsigned hsa_iterate_agents(callback_t callback, void *data) {
  for (uint64_t cpu = 1; cpu <= 2; ++cpu) callback((handle_t){cpu}, data);
  for (uint64_t gpu = 10; gpu < 10 + GPUS; ++gpu) callback((handle_t){gpu}, data);
  return OK;
}

static uint32_t hdp[2];
static int is_gfx1100(handle_t agent) { return agent.handle <= 11; }

unsigned hsa_agent_get_info(handle_t agent, unsigned attribute, void *value) {
  int gpu = agent.handle >= 10;
  const char *name = !gpu ? "CPU" : is_gfx1100(agent) ? "gfx1100" : "gfx942";
  char uuid[] = "GPU-00000000000000aa";
  switch (attribute) {
    case 0: return put_text(value, name, 64);
    case 1: return put_text(value, "AMD", 64);
    case 4: return put(value, 0, 4);
    case 5: return put(value, 2, 4);
    case 6: return put(value, gpu ? is_gfx1100(agent) ? 32 : 64 : 0, 4);
    case 7: return put(value, gpu ? 0x0400040004000400 : 0, 6);
    case 8: return put(value, gpu ? 1024 : 0, 4);
    case 12: return put(value, gpu ? 128 : 0, 4);
    case 13: return put(value, gpu ? 64 : 0, 4);
    case 14: return put(value, gpu ? 131072 : 0, 4);
    case 16: return put(value, gpu ? agent.handle - 8 : agent.handle - 1, 4);
    case 17: return put(value, gpu, 4);
    case 0xA000: return put(value, is_gfx1100(agent) ? 0x744c : 0x74a1, 4);
    case 0xA002: return put(value, 96, 4);
    case 0xA006: return put(value, agent.handle << 8, 4);
    case 0xA009: return gpu ? put_text(value, is_gfx1100(agent) ? "Radeon RX " : "Instinct", 64) : INVALID;
    case 0xA00E: memcpy(value, (void *[]){hdp, hdp + 1}, 2 * sizeof(void *)); return OK;
    case 0xA00F: return put(value, 0, 4);
    case 0xA011:
      uuid[18] = uuid[19] = 'a' + agent.handle - 10;
      return put_text(value, is_gfx1100(agent) ? uuid : "GPU-XX", 21);
    case 0xA113: return is_gfx1100(agent) ? put(value, agent.handle == 10 ? 2 : 1, 8) : INVALID;
    default: return INVALID;
  }
}

unsigned hsa_agent_iterate_isas(handle_t agent, callback_t callback, void *data) {
  callback((handle_t){is_gfx1100(agent) ? 1100 : 942}, data);
  return is_gfx1100(agent) ? callback((handle_t){11}, data) : OK;
}

unsigned hsa_isa_get_info_alt(handle_t isa, unsigned attribute, void *value) {
  const char *name = isa.handle == 1100 ? "amdgcn-amd-amdhsa--gfx1100"
                     : isa.handle == 11 ? "amdgcn-amd-amdhsa--gfx11-generic"
                                        : "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-";
  switch (attribute) {
    case 0: return put(value, strlen(name) + 1, 4);
    case 1: return put_text(value, name, strlen(name) + 1);
    default: return INVALID;
  }
}

unsigned hsa_amd_agent_iterate_memory_pools(handle_t agent, callback_t callback, void *data) {
  uint64_t pools = agent.handle * 10;
  if (agent.handle < 10) callback((handle_t){pools + KERNARG}, data);
  if (is_gfx1100(agent)) callback((handle_t){pools + FINE}, data);
  callback((handle_t){pools + COARSE}, data);
  return callback((handle_t){pools + GROUP}, data);
}

unsigned hsa_amd_memory_pool_get_info(handle_t pool, unsigned attribute, void *value) {
  static const uint32_t flags[] = {4, 2, 3};
  int kind = pool.handle % 10, cpu = pool.handle < 100;
  switch (attribute) {
    case 0: return put(value, kind == GROUP ? 3 : 0, 4);
    case 1: return kind == GROUP ? INVALID : put(value, flags[kind], 4);
    case 2: return put(value, kind == GROUP ? 65536 : 24ull << 30, 8);
    case 5: return put(value, kind != GROUP, 1);
    case 6: case 7: return put(value, 4096, 8);
    case 15: return put(value, cpu, 1);
    default: return INVALID;
  }
}

// No CPU can access the coarse memory of gfx1100; everyone can access everything else when allowed to.
unsigned hsa_amd_agent_memory_pool_get_info(handle_t agent, handle_t pool, unsigned attribute, void *value) {
  int never = agent.handle < 10 && (pool.handle == 100 || pool.handle == 110);
  switch (attribute) {
    case 0: return put(value, never ? 0 : 2, 4);
    case 1: return put(value, 0, 4);
    default: return INVALID;
  }
}
