// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A /dev/kfd for machines without AMD's kernel driver, preloaded into programs
// with IREE's C driver when they run on the sim. That driver
// opens the device node for one purpose, AMDKFD_IOC_GET_CLOCK_COUNTERS
// (include/uapi/linux/kfd_ioctl.h of Linux); everything else goes through HSA.
// This driver needs no /dev/kfd.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

struct clock_counters {
  uint64_t gpu_clock_counter;
  uint64_t cpu_clock_counter;
  uint64_t system_clock_counter;
  uint64_t system_clock_freq;
  uint32_t gpu_id;
  uint32_t pad;
};

#define GET_CLOCK_COUNTERS _IOWR('K', 0x05, struct clock_counters)

static uint64_t nanoseconds(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

// Opens a stand-in for /dev/kfd, anything else as the C library does.
int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if (strcmp(path, "/dev/kfd") == 0) path = "/dev/null";
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

// Answers the one request on the stand-in, passes on any other. The sim's
// clock is CLOCK_BOOTTIME in nanoseconds; so is the system clock of the kernel's
// answer. A GPU's clock, which it stamps signals by, has 100 million ticks a
// second and began a second later (sim/src/machine/mod.rs).
int ioctl(int file, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (request != GET_CLOCK_COUNTERS) return (int)syscall(SYS_ioctl, file, request, argument);
  struct clock_counters* counters = argument;
  counters->cpu_clock_counter = nanoseconds(CLOCK_MONOTONIC_RAW);
  counters->system_clock_counter = nanoseconds(CLOCK_BOOTTIME);
  counters->gpu_clock_counter = (counters->system_clock_counter - 1000000000u) / 10;
  counters->system_clock_freq = 1000000000u;
  return 0;
}
