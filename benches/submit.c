// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Measures the host's cost of HAL operations. `cargo xtask bench` runs it and
// parses its output, one line for each sample:
//
//   sample <case> <driver> <operations> <wall ns> <CPU ns>
//   refused <case> <driver> <why>
//
// With --mode=counts, the work of the submitting thread, twice for each case:
//
//   count <case> <driver> <operations> <kind> <count>
//
// With --mode=start, the time from here to the end of the first dispatch, the
// growth of resident memory, and the allocated GPU memory. Each process measures
// one driver once:
//
//   start <driver> <ns> <resident bytes> <VRAM bytes>
//
// With --mode=gpu-cost, the sim's counts of the GPU's work, one line for each
// kind:
//
//   cost <case> <driver> <operations> <kind> <count>
//   level <case> <driver> <kind> <value at the end>
//
// Wall time is that of the submitting thread, or from the first thread's begin
// to the last one's end. CPU time is that of all threads except the sim's, from
// the first submission to the end of all work, also where the case's wall time
// covers submission only. The driver named `floor` is benches/floor.c, for
// end-to-end cases benches/hsa_floor.c.

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cases.h"
#include "counts.h"
#include "hsa_floor.h"
#include "iree/base/tooling/flags.h"
#include "iree/hal/drivers/init.h"
#include "rig.h"

enum { MAX_DRIVERS = 2, MOST_ROUNDS = 5 };

#define FLOOR "floor"

typedef enum measure_t { MODE_TIME, MODE_COUNTS, MODE_GPU_COST, MODE_START } measure_t;

typedef struct options_t {
  measure_t mode;
  const char* folder;
  const char* filter;
  int repeat;
  const char* drivers[MAX_DRIVERS];
  int driver_count;
  const char* sim;
  // Command buffers are PM4 streams: executing one takes the same instructions whatever its length.
  bool has_streams;
  bool has_hsa_floor;
} options_t;

typedef struct sample_t {
  int64_t wall;
  int64_t cpu;
} sample_t;

static int64_t nanoseconds(clockid_t clock) {
  struct timespec time = {0};
  clock_gettime(clock, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

// CPU time of the sim's threads, found by their names.
static int64_t sim_cpu(void) {
  int64_t sum = 0;
  DIR* folder = opendir("/proc/self/task");
  for (struct dirent* entry; folder && (entry = readdir(folder));) {
    char path[64], name[32] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%.16s/comm", entry->d_name);
    FILE* file = fopen(path, "r");
    if (!file) continue;
    if (fgets(name, sizeof(name), file) && strncmp(name, "hsa-sim", 7) == 0) {
      // The clock of a thread by its id: CPUCLOCK_SCHED of CPUCLOCK_PERTHREAD (Linux, posix-timers_types.h).
      sum += nanoseconds((clockid_t)(~(unsigned)atoi(entry->d_name) << 3 | 6));
    }
    fclose(file);
  }
  if (folder) closedir(folder);
  return sum;
}

// Functions that only the sim exports (sim/src/machine/costs.rs).
typedef struct sim_t {
  void (*hold)(bool is_held);
  void (*iterate_costs)(void (*callback)(const char* name, uint64_t count, void* user_data), void* user_data);
} sim_t;

enum { MAX_COSTS = 32 };

typedef struct costs_t {
  int count;
  struct {
    char name[32];
    uint64_t value;
  } items[MAX_COSTS];
} costs_t;

static iree_status_t open_sim(const char* path, sim_t* out_sim) {
  // The HSA library of the drivers; it stays loaded.
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return iree_make_status(IREE_STATUS_NOT_FOUND, "%s", dlerror());
  *(void**)&out_sim->hold = dlsym(library, "hsa_sim_hold");
  *(void**)&out_sim->iterate_costs = dlsym(library, "hsa_sim_iterate_costs");
  if (out_sim->hold && out_sim->iterate_costs) return iree_ok_status();
  return iree_make_status(IREE_STATUS_NOT_FOUND, "%s counts no costs", path);
}

static void add_cost(const char* name, uint64_t value, void* user_data) {
  costs_t* costs = (costs_t*)user_data;
  if (costs->count == MAX_COSTS) return;
  snprintf(costs->items[costs->count].name, sizeof(costs->items[0].name), "%s", name);
  costs->items[costs->count++].value = value;
}

static costs_t sim_costs(const sim_t* sim) {
  costs_t costs = {0};
  sim->iterate_costs(add_cost, &costs);
  return costs;
}

// Runs a case once. GPUs are paused while a round is submitted: the queues fill, as
// those of busy hardware do, and counts repeat exactly.
static iree_status_t count_costs(const case_t* self, const sim_t* sim, rig_t* rig) {
  costs_t start = sim_costs(sim);
  for (uint32_t i = 0; i < self->rounds; ++i) {
    iree_status_t status = iree_ok_status();
    sim->hold(true);
    for (uint32_t j = 0; j < self->submissions && iree_status_is_ok(status); ++j) {
      status = case_submit(self, rig, 0, j);
    }
    sim->hold(false);
    IREE_RETURN_IF_ERROR(status);
    IREE_RETURN_IF_ERROR(rig_wait(rig));
    IREE_RETURN_IF_ERROR(rig_flush(rig));
  }
  costs_t end = sim_costs(sim);
  for (int i = 0; i < end.count; ++i) {
    const char* name = end.items[i].name;
    if (strcmp(name, "vram_bytes") == 0) {
      printf("level %s %s %s %llu\n", self->name, rig->driver, name, (unsigned long long)end.items[i].value);
    } else {
      printf("cost %s %s %llu %s %llu\n", self->name, rig->driver, (unsigned long long)(case_operations(self) * self->rounds),
             name, (unsigned long long)(end.items[i].value - start.items[i].value));
    }
  }
  fflush(stdout);
  return iree_ok_status();
}

// Maximum number of operations counted at the end of a round: counting takes many microseconds an instruction.
// Fewer for recordings: recording a dispatch takes as many instructions as replaying ten.
enum { MAX_COUNTED_SUBMISSIONS = 8, MAX_COUNTED_DISPATCHES = 1000, MAX_COUNTED_RECORDED_DISPATCHES = 100 };

// True if counts of the case repeat. Counts of host threads that wait or contend depend on time.
static bool can_measure(const case_t* self, const options_t* options) {
  switch (options->mode) {
    case MODE_COUNTS:
      if (self->is_end_to_end || case_threads(self) != 1) return false;
      if (self->is_recording) return self->dispatches <= MAX_COUNTED_RECORDED_DISPATCHES;
      return self->dispatches <= MAX_COUNTED_DISPATCHES || options->has_streams;
    case MODE_GPU_COST:
      return case_threads(self) == 1;
    default:
      return true;
  }
}

static uint32_t counted_submissions(const case_t* self) {
  return self->submissions < MAX_COUNTED_SUBMISSIONS ? self->submissions : MAX_COUNTED_SUBMISSIONS;
}

static void print_counts(const case_t* self, const char* driver, const counts_t* counts) {
  const struct {
    const char* name;
    uint64_t value;
  } kinds[] = {
      {"instructions", counts->instructions}, {"locked", counts->locked},       {"allocations", counts->allocations},
      {"system_calls", counts->system_calls}, {"hsa_calls", counts->hsa_calls},
  };
  uint64_t operations = case_operations(self) / self->submissions * counted_submissions(self);
  for (size_t i = 0; i < IREE_ARRAYSIZE(kinds); ++i) {
    printf("count %s %s %llu %s %llu\n", self->name, driver, (unsigned long long)operations, kinds[i].name,
           (unsigned long long)kinds[i].value);
  }
  fflush(stdout);
}

// Counts the end of a round. GPUs are paused, so nothing completes meanwhile.
static iree_status_t count_round(const case_t* self, const sim_t* sim, rig_t* rig) {
  iree_status_t status = iree_ok_status();
  sim->hold(true);
  for (uint32_t i = 0; i < self->submissions && iree_status_is_ok(status); ++i) {
    if (i == self->submissions - counted_submissions(self)) counts_begin();
    status = case_submit(self, rig, 0, i);
  }
  counts_t counts = counts_end();
  sim->hold(false);
  IREE_RETURN_IF_ERROR(status);
  print_counts(self, rig->driver, &counts);
  IREE_RETURN_IF_ERROR(rig_wait(rig));
  return rig_flush(rig);
}

static void count_floor(const case_t* self) {
  counts_begin();
  for (uint32_t i = 0; i < counted_submissions(self); ++i) self->floor(self);
  counts_t counts = counts_end();
  print_counts(self, FLOOR, &counts);
}

static void print_sample(const case_t* self, const char* driver, const sample_t* sample) {
  printf("sample %s %s %llu %lld %lld\n", self->name, driver,
         (unsigned long long)(case_operations(self) * self->rounds), (long long)sample->wall, (long long)sample->cpu);
  fflush(stdout);
}

static void sample_floor(const case_t* self) {
  int64_t start = nanoseconds(CLOCK_MONOTONIC);
  for (uint32_t i = 0; i < self->rounds; ++i) {
    for (uint32_t j = 0; j < self->submissions; ++j) self->floor(self);
    if (self->is_end_to_end) hsa_floor_wait();
  }
  int64_t time = nanoseconds(CLOCK_MONOTONIC) - start;
  print_sample(self, FLOOR, &(sample_t){.wall = time, .cpu = time});
}

// A thread that submits its part of each round once all threads are ready.
typedef struct submitter_t {
  pthread_t thread;
  const case_t* self;
  rig_t* rig;
  uint32_t index;
  pthread_barrier_t* barrier;
  // Times of the newest round.
  int64_t start;
  int64_t end;
  // Status of the first failure.
  iree_status_t status;
} submitter_t;

static void* submit_rounds(void* user_data) {
  submitter_t* submitter = (submitter_t*)user_data;
  const case_t* self = submitter->self;
  const uint32_t count = self->submissions / self->threads;
  for (uint32_t i = 0; i < self->rounds; ++i) {
    pthread_barrier_wait(submitter->barrier);
    submitter->start = nanoseconds(CLOCK_MONOTONIC);
    for (uint32_t j = 0; j < count && iree_status_is_ok(submitter->status); ++j) {
      submitter->status = case_submit(self, submitter->rig, submitter->index, j);
    }
    submitter->end = nanoseconds(CLOCK_MONOTONIC);
    pthread_barrier_wait(submitter->barrier);
  }
  return NULL;
}

// Wall time of all rounds of a case of several threads.
static iree_status_t run_threads(const case_t* self, rig_t* rig, int64_t* out_wall) {
  submitter_t submitters[RIG_STREAMS];
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, self->threads + 1);
  for (uint32_t i = 0; i < self->threads; ++i) {
    submitters[i] = (submitter_t){.self = self, .rig = rig, .index = i, .barrier = &barrier};
    if (pthread_create(&submitters[i].thread, NULL, submit_rounds, &submitters[i]) != 0) {
      // Threads that exist already wait at the barrier, so there is no clean way out.
      fprintf(stderr, "there are no more threads to be had\n");
      abort();
    }
  }
  iree_status_t status = iree_ok_status();
  for (uint32_t i = 0; i < self->rounds; ++i) {
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    int64_t start = INT64_MAX, end = 0;
    for (uint32_t j = 0; j < self->threads; ++j) {
      start = iree_min(start, submitters[j].start);
      end = iree_max(end, submitters[j].end);
    }
    *out_wall += end - start;
    if (iree_status_is_ok(status)) status = rig_wait(rig);
  }
  for (uint32_t i = 0; i < self->threads; ++i) {
    pthread_join(submitters[i].thread, NULL);
    status = iree_status_join(status, submitters[i].status);
  }
  pthread_barrier_destroy(&barrier);
  return status;
}

// Wall time of all rounds of a case of one thread.
static iree_status_t run_rounds(const case_t* self, rig_t* rig, int64_t* out_wall) {
  for (uint32_t i = 0; i < self->rounds; ++i) {
    int64_t start = nanoseconds(CLOCK_MONOTONIC);
    for (uint32_t j = 0; j < self->submissions; ++j) {
      IREE_RETURN_IF_ERROR(case_submit(self, rig, 0, j));
    }
    int64_t end = nanoseconds(CLOCK_MONOTONIC);
    IREE_RETURN_IF_ERROR(rig_wait(rig));
    if (self->is_end_to_end) end = nanoseconds(CLOCK_MONOTONIC);
    *out_wall += end - start;
    IREE_RETURN_IF_ERROR(rig_flush(rig));
  }
  return iree_ok_status();
}

static iree_status_t take_sample(const case_t* self, rig_t* rig, sample_t* out_sample) {
  sample_t sample = {0};
  int64_t sim_start = sim_cpu();
  int64_t cpu_start = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
  IREE_RETURN_IF_ERROR(case_threads(self) > 1 ? run_threads(self, rig, &sample.wall)
                                              : run_rounds(self, rig, &sample.wall));
  sample.cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_start;
  sample.cpu -= sim_cpu() - sim_start;
  *out_sample = sample;
  return iree_ok_status();
}

// Prepares a case and runs it once; |out_is_refused| when the driver has no such thing.
static iree_status_t warm_up(const case_t* self, rig_t* rig, bool* out_is_refused) {
  sample_t sample;
  iree_status_t status = case_prepare(self, rig);
  if (iree_status_is_ok(status)) status = take_sample(self, rig, &sample);
  // The second is the C driver's refusal of PM4 command buffers with a table: no flag gives it the ring for that.
  // The third is its refusal of metrics, for which the sim's GPUs have no files.
  // The fourth is its refusal to record a buffer in PM4 whose alloca still waits; from this driver it is an error.
  const bool is_ours = strcmp(rig->driver, "amdgpu_rs") == 0;
  *out_is_refused = iree_status_is_unimplemented(status) || iree_status_is_failed_precondition(status) ||
                    iree_status_is_not_found(status) || (!is_ours && iree_status_is_invalid_argument(status));
  if (!*out_is_refused) return status;
  printf("refused %s %s ", self->name, rig->driver);
  iree_status_fprint(stdout, status);
  iree_status_free(status);
  return rig_wait(rig);
}

// Measures a case of a driver once.
static iree_status_t measure(const case_t* self, const options_t* options, const sim_t* sim, rig_t* rig) {
  switch (options->mode) {
    case MODE_COUNTS:
      return count_round(self, sim, rig);
    case MODE_GPU_COST:
      return count_costs(self, sim, rig);
    default:
      break;
  }
  sample_t sample;
  IREE_RETURN_IF_ERROR(take_sample(self, rig, &sample));
  print_sample(self, rig->driver, &sample);
  return iree_ok_status();
}

static iree_status_t run_case(const case_t* self, const options_t* options, const sim_t* sim, rig_t* rigs,
                              int repetitions) {
  bool is_refused[MAX_DRIVERS] = {false};
  for (int i = 0; i < options->driver_count; ++i) {
    IREE_RETURN_IF_ERROR(warm_up(self, &rigs[i], &is_refused[i]), "%s of %s", self->name, rigs[i].driver);
  }
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    // In turns, so that changes of the machine's state affect all drivers.
    for (int i = 0; i < options->driver_count; ++i) {
      if (is_refused[i]) continue;
      IREE_RETURN_IF_ERROR(measure(self, options, sim, &rigs[i]), "%s of %s", self->name, rigs[i].driver);
    }
    if (self->floor && options->mode == MODE_TIME && (!self->is_end_to_end || options->has_hsa_floor)) {
      sample_floor(self);
    }
    if (self->floor && options->mode == MODE_COUNTS) count_floor(self);
  }
  return iree_ok_status();
}

// Runs each case so often. Whether there is one.
static iree_status_t run_all(const options_t* options, const sim_t* sim, rig_t* rigs, int repetitions,
                             bool* out_is_any) {
  for (iree_host_size_t i = 0; i < case_count; ++i) {
    if (fnmatch(options->filter, cases[i].name, FNM_EXTMATCH) != 0) continue;
    if (!can_measure(&cases[i], options)) continue;
    *out_is_any = true;
    IREE_RETURN_IF_ERROR(run_case(&cases[i], options, sim, rigs, repetitions));
  }
  return iree_ok_status();
}

static iree_status_t run_cases(options_t* options, rig_t* rigs) {
  sim_t sim = {0};
  if (options->mode == MODE_TIME) {
    iree_status_t status = hsa_floor_open(options->sim, options->folder);
    options->has_hsa_floor = iree_status_is_ok(status);
    if (!options->has_hsa_floor && !iree_status_is_unavailable(status)) return status;
    iree_status_free(status);
  } else {
    IREE_RETURN_IF_ERROR(open_sim(options->sim, &sim));
  }
  if (options->mode == MODE_COUNTS) {
    IREE_RETURN_IF_ERROR(counts_initialize(sim.hold));
  }
  bool is_any = false;
  // Time in several rounds of all cases: the cores of threads stay the same for seconds, and with them the
  // time of a case.
  int rounds = options->mode == MODE_TIME ? iree_min(MOST_ROUNDS, options->repeat) : 1;
  for (int i = 0; i < rounds; ++i) {
    int repetitions = options->repeat * (i + 1) / rounds - options->repeat * i / rounds;
    IREE_RETURN_IF_ERROR(run_all(options, &sim, rigs, repetitions, &is_any));
  }
  if (is_any) return iree_ok_status();
  printf("there are:");
  for (iree_host_size_t i = 0; i < case_count; ++i) printf(" %s", cases[i].name);
  printf("\n");
  return iree_make_status(IREE_STATUS_NOT_FOUND, "no case matches '%s'", options->filter);
}

static int64_t resident_bytes(void) {
  long long pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file) {
    if (fscanf(file, "%*s %lld", &pages) != 1) pages = 0;
    fclose(file);
  }
  return pages * sysconf(_SC_PAGESIZE);
}

// The cost of starting a driver.
static iree_status_t measure_start(const options_t* options, rig_t* rig) {
  const case_t* first = NULL;
  for (iree_host_size_t i = 0; i < case_count; ++i) {
    if (strcmp(cases[i].name, "dispatch/bindings-0") == 0) first = &cases[i];
  }
  IREE_ASSERT(first);
  int64_t resident = resident_bytes();
  int64_t start = nanoseconds(CLOCK_MONOTONIC);
  IREE_RETURN_IF_ERROR(rig_open(options->drivers[0], options->folder, rig));
  IREE_RETURN_IF_ERROR(case_prepare(first, rig));
  IREE_RETURN_IF_ERROR(case_submit(first, rig, 0, 0));
  IREE_RETURN_IF_ERROR(rig_wait(rig));
  int64_t time = nanoseconds(CLOCK_MONOTONIC) - start;
  resident = resident_bytes() - resident;
  sim_t sim;
  IREE_RETURN_IF_ERROR(open_sim(options->sim, &sim));
  costs_t costs = sim_costs(&sim);
  uint64_t vram = 0;
  for (int i = 0; i < costs.count; ++i) {
    if (strcmp(costs.items[i].name, "vram_bytes") == 0) vram = costs.items[i].value;
  }
  printf("start %s %lld %lld %llu\n", rig->driver, (long long)time, (long long)resident, (unsigned long long)vram);
  return iree_ok_status();
}

static iree_status_t measure_cases(options_t* options, rig_t* rigs) {
  for (int i = 0; i < options->driver_count; ++i) {
    const char* driver = options->drivers[i];
    IREE_RETURN_IF_ERROR(rig_open(driver, options->folder, &rigs[i]), "opening %s", driver);
    IREE_RETURN_IF_ERROR(rig_make_buffers(&rigs[i]), "allocating with %s", driver);
  }
  return run_cases(options, rigs);
}

static iree_status_t run(options_t* options) {
  IREE_RETURN_IF_ERROR(iree_hal_register_all_available_drivers(iree_hal_driver_registry_default()));
  rig_t rigs[MAX_DRIVERS] = {0};
  iree_status_t status =
      options->mode == MODE_START ? measure_start(options, &rigs[0]) : measure_cases(options, rigs);
  for (int i = 0; i < options->driver_count; ++i) rig_close(&rigs[i]);
  return status;
}

// Has all drivers record command buffers so, by their flags.
static void set_command_buffer_mode(const char* mode) {
  // Flags keep pointing into them.
  static char flags[2][64];
  snprintf(flags[0], sizeof(flags[0]), "--amdgpu_rs_command_buffer_mode=%s", mode);
  snprintf(flags[1], sizeof(flags[1]), "--amdgpu_command_buffer_mode=%s", mode);
  char* arguments[] = {"submit", flags[0], flags[1], NULL};
  char** remaining = arguments;
  int count = 3;
  // Of a driver that is not linked there is no flag.
  iree_flags_parse_checked(IREE_FLAGS_PARSE_MODE_UNDEFINED_OK, &count, &remaining);
}

static bool parse(int argc, char** argv, options_t* options) {
  for (int i = 1; i < argc; ++i) {
    char* value = strchr(argv[i], '=');
    if (!value) return false;
    *value++ = 0;
    if (strcmp(argv[i], "--folder") == 0) {
      options->folder = value;
    } else if (strcmp(argv[i], "--filter") == 0) {
      options->filter = value;
    } else if (strcmp(argv[i], "--repeat") == 0) {
      options->repeat = atoi(value);
    } else if (strcmp(argv[i], "--mode") == 0) {
      if (strcmp(value, "counts") == 0) {
        options->mode = MODE_COUNTS;
      } else if (strcmp(value, "gpu-cost") == 0) {
        options->mode = MODE_GPU_COST;
      } else if (strcmp(value, "start") == 0) {
        options->mode = MODE_START;
      } else if (strcmp(value, "time") != 0) {
        return false;
      }
    } else if (strcmp(argv[i], "--sim") == 0) {
      options->sim = value;
    } else if (strcmp(argv[i], "--command-buffer-mode") == 0) {
      set_command_buffer_mode(value);
      options->has_streams = strcmp(value, "pm4") == 0;
    } else if (strcmp(argv[i], "--driver") == 0 && options->driver_count < MAX_DRIVERS) {
      options->drivers[options->driver_count++] = value;
    } else {
      return false;
    }
  }
  return options->folder && options->sim && options->driver_count > 0 && options->repeat > 0;
}

int main(int argc, char** argv) {
  options_t options = {.filter = "*", .repeat = 1};
  if (!parse(argc, argv, &options)) {
    fprintf(stderr, "usage: %s --folder=<of kernels and models> --sim=<the software GPU's library> --driver=<name> "
                    "[--driver=<name>] [--mode=time|counts|gpu-cost|start] [--repeat=<samples>] "
                    "[--filter=<glob of cases>] [--command-buffer-mode=aql|pm4|auto]\n", argv[0]);
    return 2;
  }
  iree_status_t status = run(&options);
  if (iree_status_is_ok(status)) return 0;
  fflush(stdout);
  iree_status_fprint(stderr, status);
  iree_status_free(status);
  return 1;
}
