// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A stand-in for RCCL and HIP, with the functions that the driver uses: `ncclAllReduce` of u32 sums among the
// processes of a machine. Kernels run on threads of the host. As on a GPU, streams share the few hardware queues of
// their device (GPU_MAX_HW_QUEUES), each of which runs one thing at a time; kernels wait for the other ranks' and end
// with wrong data after an abort. Signal memory is the value of an HSA signal. RCCL_STAND_IN_SIGNAL_MEMORY=none makes
// HIP refuse it, and the macro NO_SIGNAL_MEMORY leaves its functions out.

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

// HSA, from the library that the driver uses.
typedef struct {
  uint64_t handle;
} hsa_handle;
int hsa_agent_get_info(hsa_handle agent, int attribute, void *value);
int hsa_iterate_agents(int (*callback)(hsa_handle, void *), void *data);
int hsa_signal_create(int64_t value, uint32_t count, const hsa_handle *agents, hsa_handle *signal);
int64_t hsa_signal_load_scacquire(hsa_handle signal);
void hsa_signal_store_screlease(hsa_handle signal, int64_t value);

enum { DEVICE_TYPE = 17, GPU = 1, BDFID = 0xa006, DOMAIN = 0xa00f };
// Bytes from a signal's handle to its value.
enum { VALUE = 8 };

enum { MOST_RANKS = 8, MOST_DEVICES = 8, MOST_QUEUES = 8, MOST_OPERATIONS = 16, PIECE = 1 << 16 };
enum { SYSTEM_ERROR = 2, INVALID_USAGE = 5, NOT_READY = 600, NOT_SUPPORTED = 801, UINT32 = 3, SUM = 0 };

// Memory that the ranks of a communicator share.
struct shared {
  atomic_uint joined;
  // The number of pieces that a rank has brought, and of those that it has added up.
  atomic_ulong brought[MOST_RANKS], added[MOST_RANKS];
  uint32_t pieces[MOST_RANKS][PIECE / 4];
};

struct communicator {
  struct shared *shared;
  uint64_t piece;
  int rank, count;
  atomic_bool aborted;
};

struct operation {
  struct communicator *communicator;
  const uint32_t *send;
  uint32_t *receive;
  size_t count;
};

// What a stream does: wait for a signal, write one, operations, or an end that somebody waits for.
struct job {
  struct job *next;
  enum { WAIT, WRITE, OPERATIONS, END } kind;
  hsa_handle signal;
  uint64_t value;
  int operations;
  struct operation operation[MOST_OPERATIONS];
  bool ended;
  // More of what commands have; each has an HSA signal with HIP.
  char rest[16384];
};

// A hardware queue and its thread. As HIP does, it keeps jobs that have ended until somebody looks at a stream of it.
struct queue {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct job *first, **last, *kept;
};

static pthread_mutex_t global = PTHREAD_MUTEX_INITIALIZER;
static struct queue *queues[MOST_DEVICES][MOST_QUEUES];
static int streams[MOST_DEVICES];
static _Thread_local int device;
static _Thread_local struct job *group;

// A look of a kernel that spins.
static void look(void) {
  nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

static bool arrived(struct communicator *own, atomic_ulong *counts, uint64_t piece) {
  for (int rank = 0; rank < own->count; rank++) {
    while (atomic_load(&counts[rank]) < piece) {
      if (atomic_load(&own->aborted)) return false;
      look();
    }
  }
  return true;
}

static void all_reduce(struct operation *operation) {
  struct communicator *own = operation->communicator;
  struct shared *shared = own->shared;
  for (size_t done = 0; done < operation->count; done += PIECE / 4) {
    size_t count = operation->count - done < PIECE / 4 ? operation->count - done : PIECE / 4;
    if (!arrived(own, shared->added, own->piece)) return;
    memcpy(shared->pieces[own->rank], operation->send + done, 4 * count);
    atomic_store(&shared->brought[own->rank], ++own->piece);
    if (!arrived(own, shared->brought, own->piece)) return;
    for (size_t index = 0; index < count; index++) {
      uint32_t sum = 0;
      for (int rank = 0; rank < own->count; rank++) sum += shared->pieces[rank][index];
      operation->receive[done + index] = sum;
    }
    atomic_store(&shared->added[own->rank], own->piece);
  }
}

static void keep(struct queue *queue, struct job *job) {
  pthread_mutex_lock(&queue->lock);
  job->next = queue->kept;
  queue->kept = job;
  pthread_mutex_unlock(&queue->lock);
}

static void drop_kept(struct queue *queue) {
  pthread_mutex_lock(&queue->lock);
  struct job *job = queue->kept;
  queue->kept = NULL;
  pthread_mutex_unlock(&queue->lock);
  while (job) {
    struct job *next = job->next;
    free(job);
    job = next;
  }
}

static void *serve(void *argument) {
  struct queue *queue = argument;
  for (;;) {
    pthread_mutex_lock(&queue->lock);
    while (!queue->first) pthread_cond_wait(&queue->changed, &queue->lock);
    struct job *job = queue->first;
    queue->first = job->next;
    if (!queue->first) queue->last = &queue->first;
    pthread_mutex_unlock(&queue->lock);
    switch (job->kind) {
    case WAIT:
      while (hsa_signal_load_scacquire(job->signal) != (int64_t)job->value) look();
      keep(queue, job);
      break;
    case WRITE:
      hsa_signal_store_screlease(job->signal, job->value);
      keep(queue, job);
      break;
    case OPERATIONS:
      for (int index = 0; index < job->operations; index++) all_reduce(&job->operation[index]);
      keep(queue, job);
      break;
    case END:
      pthread_mutex_lock(&queue->lock);
      job->ended = true;
      pthread_cond_broadcast(&queue->changed);
      pthread_mutex_unlock(&queue->lock);
    }
  }
}

static void push(struct queue *queue, struct job *job) {
  pthread_mutex_lock(&queue->lock);
  *queue->last = job;
  queue->last = &job->next;
  pthread_cond_broadcast(&queue->changed);
  pthread_mutex_unlock(&queue->lock);
}

static struct job *make(int kind, uintptr_t word, uint64_t value) {
  struct job *job = calloc(1, sizeof *job);
  memset(job->rest, 1, sizeof job->rest);
  job->kind = kind;
  job->signal.handle = word - VALUE;
  job->value = value;
  return job;
}

struct place {
  int wanted, found;
  uint32_t address, domain;
};

static int visit(hsa_handle agent, void *data) {
  struct place *place = data;
  int type = 0;
  hsa_agent_get_info(agent, DEVICE_TYPE, &type);
  if (type == GPU && place->found++ == place->wanted) {
    hsa_agent_get_info(agent, BDFID, &place->address);
    hsa_agent_get_info(agent, DOMAIN, &place->domain);
  }
  return 0;
}

EXPORT int hipGetDeviceCount(int *count) {
  struct place place = {.wanted = -1};
  hsa_iterate_agents(visit, &place);
  *count = place.found;
  return 0;
}

EXPORT int hipDeviceGetPCIBusId(char *text, int length, int ordinal) {
  struct place place = {.wanted = ordinal};
  hsa_iterate_agents(visit, &place);
  snprintf(text, length, "%04x:%02x:%02x.0", place.domain, place.address >> 8 & 255, place.address >> 3 & 31);
  return 0;
}

EXPORT int hipSetDevice(int ordinal) {
  device = ordinal;
  return 0;
}

EXPORT int hipStreamCreateWithFlags(struct queue **stream, unsigned flags) {
  const char *text = getenv("GPU_MAX_HW_QUEUES");
  pthread_mutex_lock(&global);
  struct queue **queue = &queues[device][streams[device]++ % (text ? atoi(text) : 4)];
  if (!*queue) {
    *queue = calloc(1, sizeof **queue);
    (*queue)->last = &(*queue)->first;
    pthread_t thread;
    pthread_create(&thread, NULL, serve, *queue);
    pthread_detach(thread);
  }
  *stream = *queue;
  pthread_mutex_unlock(&global);
  return 0;
}

EXPORT int hipStreamDestroy(struct queue *stream) { return 0; }

EXPORT int hipStreamSynchronize(struct queue *stream) {
  struct job *job = make(END, VALUE, 0);
  push(stream, job);
  pthread_mutex_lock(&stream->lock);
  while (!job->ended) pthread_cond_wait(&stream->changed, &stream->lock);
  pthread_mutex_unlock(&stream->lock);
  free(job);
  drop_kept(stream);
  return 0;
}

EXPORT int hipDeviceSynchronize(void) {
  for (int index = 0; index < MOST_QUEUES; index++) {
    pthread_mutex_lock(&global);
    struct queue *queue = queues[device][index];
    pthread_mutex_unlock(&global);
    if (queue) hipStreamSynchronize(queue);
  }
  return 0;
}

EXPORT int hipMalloc(void **memory, size_t size) {
  *memory = malloc(size);
  return 0;
}

EXPORT int hipFree(void *memory) {
  free(memory);
  return 0;
}

EXPORT const char *hipGetErrorString(int code) { return "an error of HIP's stand-in"; }

#ifndef NO_SIGNAL_MEMORY
EXPORT int hipExtMallocWithFlags(uintptr_t *memory, size_t size, unsigned flags) {
  if (getenv("RCCL_STAND_IN_SIGNAL_MEMORY")) return NOT_SUPPORTED;
  hsa_handle signal;
  if (hsa_signal_create(0, 0, NULL, &signal)) return 1;
  *memory = signal.handle + VALUE;
  return 0;
}

EXPORT int hipStreamWaitValue64(struct queue *stream, uintptr_t word, uint64_t value, unsigned flags, uint64_t mask) {
  push(stream, make(WAIT, word, value));
  return 0;
}

EXPORT int hipStreamWriteValue64(struct queue *stream, uintptr_t word, uint64_t value, unsigned flags) {
  push(stream, make(WRITE, word, value));
  return 0;
}

EXPORT int hipStreamQuery(struct queue *stream) {
  drop_kept(stream);
  return NOT_READY;
}
#endif

EXPORT int ncclGetVersion(int *version) {
  *version = 21304;
  return 0;
}

struct id {
  char name[128];
};

EXPORT int ncclGetUniqueId(struct id *id) {
  static atomic_int number;
  snprintf(id->name, sizeof id->name, "/rccl-stand-in-%d-%d", (int)getpid(), atomic_fetch_add(&number, 1));
  return 0;
}

EXPORT int ncclCommInitRank(struct communicator **made, int count, struct id id, int rank) {
  int file = shm_open(id.name, O_CREAT | O_RDWR, 0600);
  if (count > MOST_RANKS || file < 0 || ftruncate(file, sizeof(struct shared))) return SYSTEM_ERROR;
  struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (shared == MAP_FAILED) return SYSTEM_ERROR;
  atomic_fetch_add(&shared->joined, 1);
  while (atomic_load(&shared->joined) < (unsigned)count) look();
  shm_unlink(id.name);
  *made = calloc(1, sizeof **made);
  (*made)->shared = shared;
  (*made)->count = count;
  (*made)->rank = rank;
  return 0;
}

EXPORT int ncclCommDestroy(struct communicator *own) {
  munmap(own->shared, sizeof *own->shared);
  free(own);
  return 0;
}

// Its kernel may still run.
EXPORT int ncclCommAbort(struct communicator *own) {
  atomic_store(&own->aborted, true);
  return 0;
}

EXPORT int ncclCommGetAsyncError(struct communicator *own, int *error) {
  *error = 0;
  return 0;
}

EXPORT const char *ncclGetErrorString(int code) { return "an error of RCCL's stand-in"; }

EXPORT int ncclGroupStart(void) {
  group = make(OPERATIONS, VALUE, 0);
  return 0;
}

// The group of a communicator has one stream.
static _Thread_local struct queue *group_stream;

EXPORT int ncclGroupEnd(void) {
  if (group->operations) {
    push(group_stream, group);
  } else {
    free(group);
  }
  return 0;
}

EXPORT int ncclAllReduce(const void *send, void *receive, size_t count, int type, int reduction,
                         struct communicator *communicator, struct queue *stream) {
  if (type != UINT32 || reduction != SUM || group->operations == MOST_OPERATIONS) return INVALID_USAGE;
  group->operation[group->operations++] = (struct operation){communicator, send, receive, count};
  group_stream = stream;
  return 0;
}

EXPORT int ncclReduce(void) { return INVALID_USAGE; }
EXPORT int ncclReduceScatter(void) { return INVALID_USAGE; }
EXPORT int ncclAllGather(void) { return INVALID_USAGE; }
EXPORT int ncclBroadcast(void) { return INVALID_USAGE; }
EXPORT int ncclSend(void) { return INVALID_USAGE; }
EXPORT int ncclRecv(void) { return INVALID_USAGE; }
