#include "trainer/comm/mpi_transport.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "trainer/comm/mpi_plugin.h"

namespace nxdkit::trainer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostPerMessage = size_t{1} << 30;  // counts of MPI-3 are ints
// Ranks that share a core must let each other run; after a while a wait is a long one.
constexpr auto kSpin = std::chrono::milliseconds(2);
constexpr std::chrono::microseconds kShortestNap(30), kLongestNap(1000);

// A part of a message takes no longer, where there is still somebody to send or take it.
constexpr auto kLetGo = std::chrono::seconds(2);

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
  size_t received = 0;  // how many bytes are to come; 0 of a send
  bool receives = false;
  int peer = 0;
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
    std::vector<Request> requests;
    Status status = Post(sends, receives, requests);
    if (status.ok()) status = Wait(requests, waiting);
    if (status.ok()) {
      for (const Send& send : sends) sent_bytes_ += send.bytes.size();
      return status;
    }
    const bool let_go = LetGo(requests);
    if (!let_go || status.error().code() != Errc::kInterrupted) broken_ = true;
    return status;
  }

 private:
  static Status Fault(NxdkitMpiError error) {
    return error == nullptr ? OkStatus() : Status(Error(Errc::kLost, std::string("MPI: ") + error));
  }

  // Long ones in parts. Receives first, so that nothing arrives unexpected.
  Status Post(std::span<const Send> sends, std::span<const Receive> receives,
              std::vector<Request>& requests) const {
    for (const Receive& receive : receives) {
      std::span<std::byte> rest = receive.bytes;
      do {
        const std::span<std::byte> part = rest.first(std::min(rest.size(), kMostPerMessage));
        Request request{nullptr, part.size(), true, receive.from};
        NXDKIT_TRY(Fault(mpi_.receive(part.data(), part.size(), receive.from, receive.channel,
                                      &request.handle)));
        requests.push_back(request);
        rest = rest.subspan(part.size());
      } while (!rest.empty());
    }
    for (const Send& send : sends) {
      std::span<const std::byte> rest = send.bytes;
      do {
        const std::span<const std::byte> part = rest.first(std::min(rest.size(), kMostPerMessage));
        Request request{nullptr, 0, false, send.to};
        NXDKIT_TRY(
            Fault(mpi_.send(part.data(), part.size(), send.to, send.channel, &request.handle)));
        requests.push_back(request);
        rest = rest.subspan(part.size());
      } while (!rest.empty());
    }
    return OkStatus();
  }

  Status Wait(std::vector<Request>& requests, const Waiting& waiting) const {
    Clock::time_point heard = Clock::now();
    while (!requests.empty()) {
      const size_t before = requests.size();
      NXDKIT_TRY(TestAll(requests));
      const Clock::time_point now = Clock::now();
      if (requests.size() < before) heard = now;
      if (requests.empty()) break;
      if (waiting.cancelled != nullptr && *waiting.cancelled)
        return Error(Errc::kInterrupted, "another rank of the run has failed");
      if (waiting.limit && now - heard > *waiting.limit)
        return Error(Errc::kLost,
                     fmt::format("process {}: process {} has not been heard of for {} s", process_,
                                 requests.front().peer,
                                 std::chrono::duration<double>(*waiting.limit).count()));
      Pause(waiting.pace, now - heard);
    }
    return OkStatus();
  }

  // The buffers are the caller's again: what has begun to arrive or to leave goes on for a while,
  // unless the other process is gone. False when it does; then nothing more comes from there.
  bool LetGo(std::vector<Request>& requests) const {
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
      if (Clock::now() - begin > kLetGo) return false;
      ::usleep(static_cast<useconds_t>(kLongestNap.count()));
    }
  }

  // Takes out what is done.
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
  std::atomic<bool> broken_{false};  // the end that waits for the others would wait for ever
  std::atomic<uint64_t> sent_bytes_{0};
};

Error CannotLoad(const std::string& plugin, std::string_view why) {
  return Error(Errc::kUnsupported, fmt::format("MPI cannot be used: {}", why))
      .in(plugin)
      .hint(
          "a launcher has started several processes; install Open MPI (libopenmpi3) and the "
          "plugin of nxdkit that was built with it");
}

}  // namespace

int LaunchedProcesses() {
  // Of Open MPI, of srun with PMIx (Slurm's own count), of PMI.
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
  // Global: Open MPI's own parts look its symbols up.
  void* library = ::dlopen(options.plugin.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return CannotLoad(options.plugin, ::dlerror());
  const auto table = reinterpret_cast<NxdkitMpiTable>(::dlsym(library, NXDKIT_MPI_SYMBOL));
  const NxdkitMpi* mpi = table == nullptr ? nullptr : table();
  if (mpi == nullptr || mpi->version != NXDKIT_MPI_VERSION)
    return CannotLoad(options.plugin, "the plugin is of another version");
  int process = 0, processes = 1;
  if (const char* error = mpi->start(&process, &processes))
    return CannotLoad(options.plugin, error);
  return std::unique_ptr<Transport>(
      std::make_unique<MpiTransport>(*mpi, process, processes, options.patience));
}

}  // namespace nxdkit::trainer
