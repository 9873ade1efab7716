// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two processes share GPU memory by HIP: by IPC handles, and by a DMA-BUF that one exports and the other imports as
// external memory. The DMA-BUF is of a block of 2 MiB, in which the buffer does not begin at 0.
//
//   cargo xtask rocm run -- hipcc --offload-arch=gfx1100 tests/testdata/share.hip -o share -lhsa-runtime64
//   cargo xtask rocm run --target gfx1100 -- ./share

#include <hip/hip_runtime.h>
#include <hsa/hsa_ext_amd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call, expected)                                                      \
  do {                                                                             \
    int status = (int)(call);                                                      \
    if (status != (int)(expected)) {                                               \
      fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, status);       \
      _exit(1);                                                                    \
    }                                                                              \
  } while (0)
#define HIP(call) CHECK(call, hipSuccess)
#define REQUIRE(condition) CHECK(!(condition), 0)

enum { COUNT = 5000 };

__global__ void add(int* values, int addend) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < COUNT) values[i] += addend;
}

// What one process tells the other: how to get at the memory.
struct Offer {
  hipIpcMemHandle_t handle;
  uint64_t offset;
  uint64_t size;
};

__global__ void copy(int* to, const int* from) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < COUNT) to[i] = from[i];
}

// Reads by a kernel: HIP's copies take the beginning of external memory in place of a buffer's offset.
static void expect(const int* device, int addend) {
  static int* values;
  if (!values) HIP(hipHostMalloc((void**)&values, COUNT * sizeof(int)));
  copy<<<(COUNT + 255) / 256, 256>>>(values, device);
  HIP(hipGetLastError());
  HIP(hipDeviceSynchronize());
  for (int i = 0; i < COUNT; ++i) REQUIRE(values[i] == i + addend);
}

static void work(int* device, int addend) {
  add<<<(COUNT + 255) / 256, 256>>>(device, addend);
  HIP(hipGetLastError());
  HIP(hipDeviceSynchronize());
}

// Sends bytes with a descriptor, or none if it is -1.
static void send(int to, const Offer& offer, int fd) {
  iovec data = {(void*)&offer, sizeof(offer)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  REQUIRE(sendmsg(to, &message, 0) == sizeof(offer));
}

static int receive(int from, Offer* offer) {
  iovec data = {offer, sizeof(*offer)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  REQUIRE(recvmsg(from, &message, 0) == sizeof(*offer));
  int fd;
  memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
  return fd;
}

static void step(int to) { REQUIRE(write(to, "", 1) == 1); }

static void await(int from) {
  char byte;
  REQUIRE(read(from, &byte, 1) == 1);
}

static void exporter(int other) {
  static int values[COUNT];
  for (int i = 0; i < COUNT; ++i) values[i] = i;
  int *by_handle, *before, *by_descriptor;
  HIP(hipMalloc((void**)&by_handle, sizeof(values)));
  HIP(hipMalloc((void**)&before, 12345));
  HIP(hipMalloc((void**)&by_descriptor, sizeof(values)));
  HIP(hipMemcpy(by_handle, values, sizeof(values), hipMemcpyHostToDevice));
  HIP(hipMemcpy(by_descriptor, values, sizeof(values), hipMemcpyHostToDevice));

  Offer offer = {};
  HIP(hipIpcGetMemHandle(&offer.handle, by_handle));
  int fd = -1;
  CHECK(hsa_amd_portable_export_dmabuf(by_descriptor, sizeof(values), &fd, &offer.offset), HSA_STATUS_SUCCESS);
  struct stat file;
  REQUIRE(fstat(fd, &file) == 0);
  offer.size = (uint64_t)file.st_size;
  printf("exported %zu bytes at offset %llu of a DMA-BUF of %llu\n", sizeof(values), (unsigned long long)offer.offset,
         (unsigned long long)offer.size);
  send(other, offer, fd);
  CHECK(hsa_amd_portable_close_dmabuf(fd), HSA_STATUS_SUCCESS);

  await(other);
  expect(by_handle, 100);
  expect(by_descriptor, 1000);
  work(by_handle, 1);
  work(by_descriptor, 2);
  step(other);
  await(other);
  HIP(hipFree(by_descriptor));
  HIP(hipFree(before));
  HIP(hipFree(by_handle));
}

static void importer(int other) {
  Offer offer;
  int fd = receive(other, &offer);
  int* by_handle;
  HIP(hipIpcOpenMemHandle((void**)&by_handle, offer.handle, hipIpcMemLazyEnablePeerAccess));
  expect(by_handle, 0);

  hipExternalMemory_t memory;
  hipExternalMemoryHandleDesc handle = {};
  handle.type = hipExternalMemoryHandleTypeOpaqueFd;
  handle.handle.fd = fd;
  handle.size = offer.size;
  HIP(hipImportExternalMemory(&memory, &handle));
  int* by_descriptor;
  hipExternalMemoryBufferDesc buffer = {};
  buffer.offset = offer.offset;
  buffer.size = COUNT * sizeof(int);
  HIP(hipExternalMemoryGetMappedBuffer((void**)&by_descriptor, memory, &buffer));
  expect(by_descriptor, 0);

  work(by_handle, 100);
  work(by_descriptor, 1000);
  step(other);
  await(other);
  expect(by_handle, 101);
  expect(by_descriptor, 1002);
  HIP(hipIpcCloseMemHandle(by_handle));
  HIP(hipDestroyExternalMemory(memory));
  step(other);
}

int main() {
  int sockets[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  // HIP does not survive a fork, so neither process has begun with it.
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    close(sockets[0]);
    importer(sockets[1]);
    return 0;
  }
  close(sockets[1]);
  exporter(sockets[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  printf("shared\n");
  return 0;
}
