// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#define _GNU_SOURCE
#include "counts.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

// EFLAGS.TF: a trap after each instruction (AMD64 manual 2, 13.1.4). Signal handlers begin without it, and it is back
// when they end.
#define TRAP_FLAG 0x100

static const char* const allocators[] = {
    "malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign", "memalign",
};

static struct {
  uintptr_t allocators[IREE_ARRAYSIZE(allocators)];
  // Address range of the HSA library.
  uintptr_t hsa_begin;
  uintptr_t hsa_end;
  // Return address and stack pointer of the current call into the HSA library; 0 outside of the library.
  uintptr_t hsa_return;
  uintptr_t hsa_stack;
  // The newest instruction if it has a repeat prefix: it traps once per repetition.
  uintptr_t repeated;
  counts_t counts;
  // The counts of counts_begin and counts_end themselves.
  counts_t own;
} state;

static _Thread_local volatile bool is_counted;

// Counts the instruction at |code| by its prefixes and opcode.
static void classify(const uint8_t* code) {
  bool has_lock = false, has_repeat = false;
  for (;; ++code) {
    if (*code == 0xF0) {
      has_lock = true;
    } else if (*code == 0xF2 || *code == 0xF3) {
      has_repeat = true;
    } else if (*code != 0x66 && *code != 0x67 && *code != 0x2E && *code != 0x36 && *code != 0x3E && *code != 0x26 &&
               *code != 0x64 && *code != 0x65 && (*code & 0xF0) != 0x40) {
      break;
    }
  }
  // Loads and stores of strings, which alone are repeated; with other instructions the prefix means other things.
  bool is_string = (*code >= 0xA4 && *code <= 0xA7) || (*code >= 0xAA && *code <= 0xAF);
  if (has_repeat && is_string) state.repeated = (uintptr_t)code;
  // xchg of a register with memory, which locks without a prefix.
  if ((*code == 0x86 || *code == 0x87) && code[1] < 0xC0) has_lock = true;
  // mfence
  if (code[0] == 0x0F && code[1] == 0xAE && code[2] == 0xF0 && !has_repeat) has_lock = true;
  if (has_lock) ++state.counts.locked;
  if (code[0] == 0x0F && code[1] == 0x05) {
    ++state.counts.system_calls;
    // The kernel returns with the flag set, which traps after the next instruction only.
    ++state.counts.instructions;
  }
}

// SIGTRAP handler: runs before each instruction of a thread that has the flag.
static void on_step(int signal, siginfo_t* info, void* context) {
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  if (!is_counted) {
    // A thread that a counting thread started, or the end of counting.
    registers[REG_EFL] &= ~TRAP_FLAG;
    return;
  }
  uintptr_t pc = (uintptr_t)registers[REG_RIP];
  uintptr_t stack = (uintptr_t)registers[REG_RSP];
  if (state.hsa_return) {
    if (pc != state.hsa_return || stack <= state.hsa_stack) return;
    state.hsa_return = 0;
  }
  if (pc >= state.hsa_begin && pc < state.hsa_end) {
    ++state.counts.hsa_calls;
    state.hsa_return = *(const uintptr_t*)stack;
    state.hsa_stack = stack;
    return;
  }
  static uintptr_t last;
  if (pc == last && state.repeated) return;
  last = pc;
  state.repeated = 0;
  ++state.counts.instructions;
  classify((const uint8_t*)pc);
  for (size_t i = 0; i < IREE_ARRAYSIZE(allocators); ++i) {
    if (pc == state.allocators[i]) ++state.counts.allocations;
  }
}

// Finds the address range of the library that exports hsa_begin.
static int find_library(struct dl_phdr_info* info, size_t size, void* user_data) {
  uintptr_t begin = UINTPTR_MAX, end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* header = &info->dlpi_phdr[i];
    if (header->p_type != PT_LOAD) continue;
    uintptr_t address = info->dlpi_addr + header->p_vaddr;
    begin = iree_min(begin, address);
    end = iree_max(end, address + header->p_memsz);
  }
  if (state.hsa_begin < begin || state.hsa_begin >= end) return 0;
  state.hsa_begin = begin;
  state.hsa_end = end;
  return 1;
}

iree_status_t counts_initialize(const void* hsa_address) {
  for (size_t i = 0; i < IREE_ARRAYSIZE(allocators); ++i) {
    state.allocators[i] = (uintptr_t)dlsym(RTLD_DEFAULT, allocators[i]);
  }
  state.hsa_begin = (uintptr_t)hsa_address;
  if (!dl_iterate_phdr(find_library, NULL)) {
    return iree_make_status(IREE_STATUS_NOT_FOUND, "no library has the address %p", hsa_address);
  }
  struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
  if (sigaction(SIGTRAP, &action, NULL) != 0) {
    return iree_make_status(iree_status_code_from_errno(errno), "installing a handler of SIGTRAP");
  }
  counts_begin();
  state.own = counts_end();
  return iree_ok_status();
}

void counts_begin(void) {
  memset(&state.counts, 0, sizeof(state.counts));
  is_counted = true;
  __asm__ volatile("" ::: "memory");
  __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | TRAP_FLAG);
}

counts_t counts_end(void) {
  is_counted = false;
  // The next instruction traps.
  __asm__ volatile("nop\n nop" ::: "memory");
  counts_t counts = state.counts;
  counts.instructions -= state.own.instructions;
  return counts;
}
