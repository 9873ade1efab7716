// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// capture <program> [argument...]
//
// Runs a program of an IREE build with Tracy and counts what is in its trace:
// zones, GPU zones, named memory and threads. The counts go to standard output,
// one a line, with tabs between the fields:
//
//   zones    <all> <of Rust sources> <without an end>
//   zone     <name> <count>                        of Rust sources
//   memory   <stream> <allocations> <frees>
//   gpu      <context> <zones> <zones with plausible times>
//   kernel   <name> <count>                        a GPU zone's name
//   thread   <name>
//
// It is a server of Tracy's protocol: it connects to the program, reads LZ4
// frames of events until the program says that it ends, and lets it end.
// Events and their sizes are those of common/TracyQueue.hpp; the order of what
// comes before strings and source locations follows TracyWorker.cpp.
//
// Exit code: the program's; 125 if the trace is not whole.

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/TracyProtocol.hpp"
#include "common/TracyQueue.hpp"
#include "common/tracy_lz4.cpp"

namespace {

using tracy::QueueItem;
using tracy::QueueType;

pid_t program = 0;

[[noreturn]] void Fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "capture: ");
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n");
  va_end(arguments);
  if (program != 0) kill(program, SIGKILL);
  exit(125);
}

// A connection to the program, whose reads and writes are whole.
class Connection {
 public:
  explicit Connection(int descriptor) : descriptor_(descriptor) {}

  void Read(void* bytes, size_t length) {
    for (char* at = static_cast<char*>(bytes); length > 0;) {
      const ssize_t count = read(descriptor_, at, length);
      if (count <= 0) Fail("the program ended before its trace did");
      at += count;
      length -= count;
    }
  }

  void Write(const void* bytes, size_t length) {
    if (send(descriptor_, bytes, length, MSG_NOSIGNAL) !=
        static_cast<ssize_t>(length)) {
      Fail("the program takes no more queries");
    }
  }

  void Query(tracy::ServerQuery type, uint64_t argument) {
    const tracy::ServerQueryPacket packet = {type, argument, 0};
    Write(&packet, sizeof(packet));
  }

 private:
  int descriptor_;
};

// A port that nobody listens on.
uint16_t FreePort() {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr* raw = reinterpret_cast<sockaddr*>(&address);
  if (descriptor < 0 || bind(descriptor, raw, length) != 0 ||
      getsockname(descriptor, raw, &length) != 0) {
    Fail("no port is free");
  }
  close(descriptor);
  return ntohs(address.sin_port);
}

// Connects as soon as the program listens.
Connection Connect(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (;;) {
    const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(descriptor, reinterpret_cast<sockaddr*>(&address),
                sizeof(address)) == 0) {
      return Connection(descriptor);
    }
    close(descriptor);
    if (waitpid(program, nullptr, WNOHANG) != 0) {
      program = 0;
      Fail("the program ended without a trace: is it built with Tracy?");
    }
    poll(nullptr, 0, 10);
  }
}

struct GpuZone {
  std::string name;
  int64_t begin = -1;
  int64_t end = -1;
};

struct GpuContext {
  std::string name;
  int64_t cpu_time = 0;
  int64_t gpu_time = 0;
  float period = 1;
  std::vector<GpuZone> zones;
  std::vector<size_t> open;
  // The zones whose begin or end a query will tell the time of.
  std::map<uint16_t, std::pair<size_t, bool>> queries;
};

struct Memory {
  int allocations = 0;
  int frees = 0;
};

class Trace {
 public:
  explicit Trace(Connection& connection) : connection_(connection) {}

  void ReadAll() {
    connection_.Write(tracy::HandshakeShibboleth,
                      tracy::HandshakeShibbolethSize);
    const uint32_t version = tracy::ProtocolVersion;
    connection_.Write(&version, sizeof(version));
    tracy::HandshakeStatus status;
    connection_.Read(&status, sizeof(status));
    if (status != tracy::HandshakeWelcome) {
      Fail("the program refuses version %u of Tracy's protocol (%d)", version,
           status);
    }
    connection_.Read(&welcome_, sizeof(welcome_));
    // Frames refer to what came before them, as far as LZ4 does.
    std::vector<char> packed(tracy::LZ4Size);
    std::vector<char> ring(3 * tracy::TargetFrameSize);
    size_t offset = 0;
    tracy::LZ4_streamDecode_t stream;
    tracy::LZ4_setStreamDecode(&stream, nullptr, 0);
    while (!has_ended_ || unanswered_ > 0) {
      tracy::lz4sz_t length;
      connection_.Read(&length, sizeof(length));
      if (length > packed.size()) Fail("a frame of %u bytes", length);
      connection_.Read(packed.data(), length);
      const int count = tracy::LZ4_decompress_safe_continue(
          &stream, packed.data(), &ring[offset], length,
          tracy::TargetFrameSize);
      if (count < 0) Fail("a frame that LZ4 does not read");
      ReadFrame(&ring[offset], &ring[offset] + count);
      offset += count;
      if (offset > 2 * tracy::TargetFrameSize) offset = 0;
    }
    connection_.Query(tracy::ServerQueryTerminate, 0);
  }

  void Print() const {
    int driver_zones = 0, open = 0;
    for (const auto& zone : zones_) driver_zones += zone.second;
    for (const auto& depth : depths_) open += depth.second;
    printf("zones\t%d\t%d\t%d\n", zone_count_, driver_zones, open);
    for (const auto& zone : zones_) {
      printf("zone\t%s\t%d\n", zone.first.c_str(), zone.second);
    }
    for (const auto& memory : memory_) {
      printf("memory\t%s\t%d\t%d\n", Text(memory.first),
             memory.second.allocations, memory.second.frees);
    }
    std::map<std::string, int> kernels;
    for (const auto& context : contexts_) {
      int timed = 0;
      for (const GpuZone& zone : context.second.zones) {
        timed += IsPlausible(context.second, zone);
        ++kernels[zone.name];
      }
      printf("gpu\t%s\t%zu\t%d\n", context.second.name.c_str(),
             context.second.zones.size(), timed);
    }
    for (const auto& kernel : kernels) {
      printf("kernel\t%s\t%d\n", kernel.first.c_str(), kernel.second);
    }
    for (const auto& thread : thread_names_) printf("thread\t%s\n", thread.c_str());
  }

 private:
  const char* Text(uint64_t pointer) const {
    const auto found = strings_.find(pointer);
    return found == strings_.end() ? "" : found->second.c_str();
  }

  // A zone of the trace's time that does not end before it begins.
  bool IsPlausible(const GpuContext& context, const GpuZone& zone) const {
    const double since = double(zone.begin - context.gpu_time) * context.period;
    const double begin = double(context.cpu_time) * welcome_.timerMul + since;
    return zone.begin >= 0 && zone.end >= zone.begin &&
           begin >= double(welcome_.initBegin) * welcome_.timerMul;
  }

  void Query(tracy::ServerQuery type, uint64_t argument) {
    connection_.Query(type, argument);
    ++unanswered_;
  }

  void ReadFrame(const char* at, const char* end) {
    while (at < end) at = ReadEvent(at);
  }

  // Takes bytes with their count in front of them.
  template <typename Count>
  static std::string TakeBytes(const char*& at) {
    Count count;
    memcpy(&count, at, sizeof(count));
    at += sizeof(count) + count;
    return std::string(at - count, count);
  }

  const char* ReadEvent(const char* at) {
    QueueItem event;
    event.hdr.idx = static_cast<uint8_t>(*at);
    if (event.hdr.idx >= static_cast<uint8_t>(QueueType::NUM_TYPES)) {
      Fail("an event of the unknown type %u", event.hdr.idx);
    }
    const size_t size = tracy::QueueDataSize[event.hdr.idx];
    memcpy(&event, at, size);
    at += size;
    switch (event.hdr.type) {
      case QueueType::SingleStringData:
        text_ = TakeBytes<uint16_t>(at);
        return at;
      case QueueType::SecondStringData:
        TakeBytes<uint16_t>(at);
        return at;
      case QueueType::FrameImageData:
      case QueueType::SymbolCode:
      case QueueType::SourceCode:
        TakeBytes<uint32_t>(at);
        return at;
      default:
        break;
    }
    if (event.hdr.type >= QueueType::StringData) {
      ReadText(event, TakeBytes<uint16_t>(at));
    } else {
      Handle(event);
    }
    return at;
  }

  void ReadText(const QueueItem& event, std::string text) {
    switch (event.hdr.type) {
      case QueueType::StringData:
        strings_[event.stringTransfer.ptr] = std::move(text);
        --unanswered_;
        break;
      case QueueType::ThreadName:
        thread_names_.insert(std::move(text));
        --unanswered_;
        break;
      case QueueType::SourceLocationPayload: {
        // Color, line, function, file, name.
        const size_t function = 2 * sizeof(uint32_t);
        const size_t file = text.find('\0', function) + 1;
        const size_t name = text.find('\0', file) + 1;
        file_ = text.substr(file, name - 1 - file);
        name_ = text.substr(name);
        break;
      }
      default:
        break;
    }
  }

  void Handle(const QueueItem& event) {
    switch (event.hdr.type) {
      case QueueType::Terminate:
        has_ended_ = true;
        break;
      case QueueType::ThreadContext:
        thread_ = event.threadCtx.thread;
        if (threads_.insert(thread_).second) {
          Query(tracy::ServerQueryThreadString, thread_);
        }
        break;
      case QueueType::ZoneBeginAllocSrcLoc:
      case QueueType::ZoneBeginAllocSrcLocCallstack: {
        const std::string suffix = ".rs";
        if (file_.size() > suffix.size() &&
            file_.compare(file_.size() - suffix.size(), suffix.size(),
                          suffix) == 0) {
          ++zones_[name_];
        }
        [[fallthrough]];
      }
      case QueueType::ZoneBegin:
      case QueueType::ZoneBeginCallstack:
        ++zone_count_;
        ++depths_[thread_];
        break;
      case QueueType::ZoneEnd:
        --depths_[thread_];
        break;
      case QueueType::MemNamePayload:
        stream_ = event.memName.name;
        if (memory_.insert({stream_, Memory()}).second) {
          Query(tracy::ServerQueryString, stream_);
        }
        break;
      case QueueType::MemAllocNamed:
      case QueueType::MemAllocCallstackNamed:
        ++memory_[stream_].allocations;
        break;
      case QueueType::MemFreeNamed:
      case QueueType::MemFreeCallstackNamed:
        ++memory_[stream_].frees;
        break;
      case QueueType::GpuNewContext: {
        GpuContext& context = contexts_[event.gpuNewContext.context];
        context.cpu_time = event.gpuNewContext.cpuTime;
        context.gpu_time = event.gpuNewContext.gpuTime;
        context.period = event.gpuNewContext.period;
        break;
      }
      case QueueType::GpuContextName:
        contexts_[event.gpuContextName.context].name = text_;
        break;
      case QueueType::GpuZoneBeginAllocSrcLoc:
      case QueueType::GpuZoneBeginAllocSrcLocSerial: {
        GpuContext& context = contexts_[event.gpuZoneBeginLean.context];
        context.queries[event.gpuZoneBeginLean.queryId] = {
            context.zones.size(), false};
        context.open.push_back(context.zones.size());
        context.zones.push_back({name_});
        break;
      }
      case QueueType::GpuZoneEnd:
      case QueueType::GpuZoneEndSerial: {
        GpuContext& context = contexts_[event.gpuZoneEnd.context];
        if (context.open.empty()) Fail("a GPU zone ends that has not begun");
        context.queries[event.gpuZoneEnd.queryId] = {context.open.back(), true};
        context.open.pop_back();
        break;
      }
      case QueueType::GpuTime: {
        // The difference to the one before, of whatever context.
        gpu_time_ += event.gpuTime.gpuTime;
        GpuContext& context = contexts_[event.gpuTime.context];
        const auto found = context.queries.find(event.gpuTime.queryId);
        if (found == context.queries.end()) Fail("a time of no GPU zone");
        GpuZone& zone = context.zones[found->second.first];
        (found->second.second ? zone.end : zone.begin) = gpu_time_;
        context.queries.erase(found);
        break;
      }
      default:
        break;
    }
  }

  Connection& connection_;
  tracy::WelcomeMessage welcome_;
  bool has_ended_ = false;
  // Queries whose answers are to come.
  int unanswered_ = 0;
  uint32_t thread_ = 0;
  std::set<uint32_t> threads_;
  std::set<std::string> thread_names_;
  // What the next event refers to.
  std::string text_, file_, name_;
  uint64_t stream_ = 0;
  std::map<uint64_t, std::string> strings_;
  int zone_count_ = 0;
  std::map<std::string, int> zones_;
  std::map<uint32_t, int> depths_;
  std::map<uint64_t, Memory> memory_;
  std::map<uint8_t, GpuContext> contexts_;
  int64_t gpu_time_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) Fail("usage: capture <program> [argument...]");
  const uint16_t port = FreePort();
  setenv("TRACY_PORT", std::to_string(port).c_str(), 1);
  // Waits for its trace to be read. No samples, which need rights.
  setenv("TRACY_NO_EXIT", "1", 1);
  setenv("TRACY_NO_SYS_TRACE", "1", 1);
  if (posix_spawnp(&program, argv[1], nullptr, nullptr, argv + 1, environ) !=
      0) {
    program = 0;
    Fail("%s cannot be started", argv[1]);
  }
  Connection connection = Connect(port);
  Trace trace(connection);
  trace.ReadAll();
  trace.Print();
  int status = 0;
  waitpid(program, &status, 0);
  program = 0;
  if (!WIFEXITED(status)) Fail("the program ended with signal %d", status);
  return WEXITSTATUS(status);
}
