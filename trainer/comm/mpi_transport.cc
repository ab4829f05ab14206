#include "trainer/comm/mpi_transport.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <vector>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "trainer/comm/mpi_plugin.h"

namespace nxdkit::trainer {
namespace {

using Clock = std::chrono::steady_clock;

// A cancelled transfer must finish quickly, so long messages are sent in parts, a few at a time.
constexpr size_t kPart = size_t{16} << 20;
constexpr ptrdiff_t kMostUnderWay = 8;
// Ranks that share a core must let each other run; after this time a wait counts as long.
constexpr auto kSpin = std::chrono::milliseconds(2);
constexpr std::chrono::microseconds kShortestNap(30), kLongestNap(1000);

// The time that transfers under way get to finish while the other process still responds, and when
// it is lost.
constexpr std::chrono::milliseconds kReleaseWait(5000), kReleaseWaitWhenLost(100);

void Pause(Transport::Pace pace, std::chrono::steady_clock::duration waited) {
  if (pace == Transport::Pace::kEager && waited < kSpin) {
    ::sched_yield();
    return;
  }
  auto nap = std::chrono::duration_cast<std::chrono::microseconds>(waited) / 16;
  nap = std::clamp(nap, kShortestNap, pace == Transport::Pace::kIdle ? kLongestNap : kShortestNap);
  ::usleep(static_cast<useconds_t>(nap.count()));
}

// A message under way.
struct Request {
  void* handle = nullptr;
  size_t received = 0;  // bytes to be received; 0 for a send
  bool receives = false;
  int peer = 0;
};

struct Traffic {
  std::vector<Request> requests;        // under way
  std::deque<Transport::Send> to_send;  // parts, in order
};

class MpiTransport : public Transport {
 public:
  MpiTransport(const NxdkitMpi& mpi, int process, int processes, std::chrono::milliseconds patience)
      : mpi_(mpi), process_(process), processes_(processes), patience_(patience) {}
  ~MpiTransport() override {
    if (!broken_) mpi_.finish();
  }
  int process() const override { return process_; }
  int processes() const override { return processes_; }

  std::chrono::milliseconds patience() const override { return patience_; }
  uint64_t sent_bytes() const override { return sent_bytes_; }

  Status Run(std::span<const Send> sends, std::span<const Receive> receives,
             const Waiting& waiting) override {
    Traffic traffic;
    for (const Send& send : sends)
      ForParts(send.bytes, [&](auto part) {
        traffic.to_send.push_back({send.to, send.channel, part});
      });
    Status status = Receives(receives, traffic.requests);
    if (status.ok()) status = Wait(traffic, waiting);
    if (status.ok()) {
      for (const Send& send : sends) sent_bytes_ += send.bytes.size();
      return status;
    }
    // Nothing more comes from a process that was silent for so long, and people wait for the
    // message.
    const bool cancelled = status.error().code() == Errc::kInterrupted;
    const bool released =
        ReleaseBuffers(traffic.requests, cancelled ? kReleaseWait : kReleaseWaitWhenLost);
    if (!released || !cancelled) broken_ = true;
    return status;
  }

 private:
  static Status Fault(NxdkitMpiError error) {
    return error == nullptr ? OkStatus() : Status(Error(Errc::kLost, std::string("MPI: ") + error));
  }

  // An empty message is one empty part.
  template <typename Bytes, typename Take>
  static void ForParts(Bytes bytes, const Take& take) {
    do {
      const size_t size = std::min(bytes.size(), kPart);
      take(bytes.first(size));
      bytes = bytes.subspan(size);
    } while (!bytes.empty());
  }

  // Posts receives before anything is sent, so that nothing arrives unexpected.
  Status Receives(std::span<const Receive> receives, std::vector<Request>& requests) const {
    Status status = OkStatus();
    for (const Receive& receive : receives)
      ForParts(receive.bytes, [&](auto part) {
        if (!status.ok()) return;
        Request request{nullptr, part.size(), true, receive.from};
        status = Fault(
            mpi_.receive(part.data(), part.size(), receive.from, receive.channel, &request.handle));
        if (status.ok()) requests.push_back(request);
      });
    return status;
  }

  // Sends as many parts as may be under way, in order.
  Status SendSome(Traffic& traffic) const {
    const auto sends = std::ranges::count(traffic.requests, false, &Request::receives);
    for (auto left = kMostUnderWay - sends; left > 0 && !traffic.to_send.empty(); --left) {
      const Send& part = traffic.to_send.front();
      Request request{nullptr, 0, false, part.to};
      NXDKIT_TRY(Fault(
          mpi_.send(part.bytes.data(), part.bytes.size(), part.to, part.channel, &request.handle)));
      traffic.requests.push_back(request);
      traffic.to_send.pop_front();
    }
    return OkStatus();
  }

  Status Wait(Traffic& traffic, const Waiting& waiting) const {
    std::vector<Request>& requests = traffic.requests;
    Clock::time_point heard = Clock::now();
    while (true) {
      NXDKIT_TRY(SendSome(traffic));
      const size_t before = requests.size();
      NXDKIT_TRY(TestAll(requests));
      if (requests.empty() && traffic.to_send.empty()) return OkStatus();
      const Clock::time_point now = Clock::now();
      if (requests.size() < before) {
        heard = now;
        continue;
      }
      if (waiting.cancelled != nullptr && *waiting.cancelled)
        return Error(Errc::kInterrupted, "another rank of the run has failed");
      if (waiting.limit && now - heard > *waiting.limit)
        return Error(Errc::kLost,
                     fmt::format("process {}: process {} has not been heard of for {} s", process_,
                                 requests.front().peer,
                                 std::chrono::duration<double>(*waiting.limit).count()));
      Pause(waiting.pace, now - heard);
    }
  }

  // Returns the buffers to the caller: transfers that have begun may go on for a while, unless the
  // other process is gone. False if one does not finish; then this process is about to end.
  bool ReleaseBuffers(std::vector<Request>& requests, std::chrono::milliseconds most) const {
    for (const Request& request : requests)
      if (request.receives) mpi_.cancel(request.handle);
    const Clock::time_point begin = Clock::now();
    while (true) {
      std::erase_if(requests, [&](const Request& request) {
        int done = 0;
        size_t bytes = 0;
        return mpi_.test(request.handle, &done, &bytes) == nullptr && done != 0;
      });
      if (requests.empty()) return true;
      if (Clock::now() - begin > most) return false;
      ::usleep(static_cast<useconds_t>(kLongestNap.count()));
    }
  }

  // Removes the finished requests.
  Status TestAll(std::vector<Request>& requests) const {
    for (size_t i = 0; i < requests.size();) {
      int done = 0;
      size_t bytes = 0;
      NXDKIT_TRY(Fault(mpi_.test(requests[i].handle, &done, &bytes)));
      if (!done) {
        ++i;
        continue;
      }
      const Request request = requests[i];
      requests.erase(requests.begin() + static_cast<ptrdiff_t>(i));
      if (request.receives && bytes != request.received)
        return Error(Errc::kInternal, "ranks call the same collective with other sizes");
    }
    return OkStatus();
  }

  const NxdkitMpi& mpi_;
  const int process_, processes_;
  const std::chrono::milliseconds patience_;
  std::atomic<bool> broken_{false};  // waiting for the others at the end would never return
  std::atomic<uint64_t> sent_bytes_{0};
};

Error CannotLoad(const std::string& plugin, std::string_view why) {
  return Error(Errc::kUnsupported, fmt::format("MPI cannot be used: {}", why))
      .in(plugin)
      .hint(
          "a launcher has started several processes; install Open MPI (libopenmpi3) and nxdkit's "
          "plugin for it");
}

}  // namespace

int LaunchedProcesses() {
  // Open MPI; srun with PMIx (Slurm's own count); PMI.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* value = std::getenv(name))
      return static_cast<int>(std::max(1, ParseNumber<int>(value).value_or(1)));
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  if (std::getenv("PMIX_RANK") == nullptr || tasks == nullptr) return 1;
  return std::max(1, ParseNumber<int>(tasks).value_or(1));
}

int LaunchedProcess() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
    if (const char* value = std::getenv(name)) return ParseNumber<int>(value).value_or(0);
  return 0;
}

Result<std::unique_ptr<Transport>> StartMpi(const MpiOptions& options) {
  // Global: Open MPI's own components look up its symbols.
  void* library = ::dlopen(options.plugin.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return CannotLoad(options.plugin, ::dlerror());
  const auto table = reinterpret_cast<NxdkitMpiTable>(::dlsym(library, NXDKIT_MPI_SYMBOL));
  const NxdkitMpi* mpi = table == nullptr ? nullptr : table();
  if (mpi == nullptr || mpi->version != NXDKIT_MPI_VERSION)
    return CannotLoad(options.plugin, "the plugin is of another version");
  int process = 0, processes = 1;
  if (const char* error = mpi->start(&process, &processes))
    return CannotLoad(options.plugin, error);
  if (processes != LaunchedProcesses())
    return CannotLoad(
        options.plugin,
        fmt::format("the launcher has started {} processes, but this MPI knows {}: it "
                    "is not the launcher's",
                    LaunchedProcesses(), processes));
  return std::unique_ptr<Transport>(
      std::make_unique<MpiTransport>(*mpi, process, processes, options.patience));
}

}  // namespace nxdkit::trainer
