#include "trainer/rollout/worker.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <mutex>

#include "lib/base/errors.h"
#include "trainer/rollout/messages.h"

namespace nxdkit::trainer {
namespace {

constexpr size_t kReadBytes = 64 << 10;
constexpr auto kHeartbeat = std::chrono::milliseconds(500);

class WorkerLoop {
 public:
  WorkerLoop(int in, int out, const EngineMaker& make) : in_(in), out_(out), make_(make) {}

  Status Run() {
    NXDKIT_TRY(Send(FrameKind::kHello, EncodeHello()));
    while (true) {
      NXDKIT_ASSIGN(const std::optional<Frame> frame, Read());
      if (!frame) return OkStatus();
      NXDKIT_TRY(Answer(*frame));
    }
  }

 private:
  Status Answer(const Frame& frame) {
    Status status = frame.kind == FrameKind::kLoad       ? Load(frame.payload)
                    : frame.kind == FrameKind::kGenerate ? Generate(frame.payload)
                                                         : Unexpected(frame.kind);
    if (status.ok() || broken_) return status;
    const bool again = kind_ != EngineKind::kCpu && status.error().code() == Errc::kIo;
    return Send(again ? FrameKind::kBroken : FrameKind::kFailed, EncodeError(status.error()));
  }

  Status Unexpected(FrameKind kind) {
    broken_ = true;
    return Corrupt("a frame of kind {} is not for a rollout worker", static_cast<uint32_t>(kind));
  }

  Status Load(const std::string& payload) {
    NXDKIT_ASSIGN(const EngineOptions options, Decode<EngineOptions>(payload));
    if (!engine_ || options.kind != kind_) {
      engine_.reset();
      NXDKIT_ASSIGN(engine_, make_(options.kind));
      kind_ = options.kind;
    }
    NXDKIT_ASSIGN(const EngineFacts facts, engine_->Load(options, [this] { return Beat(); }));
    return Send(FrameKind::kLoaded, Encode(facts));
  }

  Status Generate(const std::string& payload) {
    NXDKIT_ASSIGN(const DecodedRequests decoded, DecodeRequests(payload));
    if (!engine_) return Error(Errc::kInternal, "no engine is loaded");
    GenerateHooks hooks;
    Status sent;
    hooks.poll = [&] { return sent.ok() ? Beat() : sent; };
    hooks.on_response = [&](size_t request, const RolloutResponse& response) {
      if (sent.ok())
        sent = Send(FrameKind::kResponse, EncodeResponse(decoded.numbers[request], response));
    };
    NXDKIT_ASSIGN(const Generated generated, engine_->Generate(decoded.requests, hooks));
    return Send(FrameKind::kDone, Encode(generated.stats));
  }

  // Reports now and then that it is still at work. Called from any thread.
  Status Beat() {
    if (broken_) return Error(Errc::kInterrupted, "the trainer is gone");
    const auto now = std::chrono::steady_clock::now();
    {
      const std::scoped_lock lock(mutex_);
      if (now - last_sent_ < kHeartbeat) return OkStatus();
    }
    return Send(FrameKind::kProgress, "");
  }

  Status Send(FrameKind kind, const std::string& payload) {
    const std::string frame = MakeFrame(kind, payload);
    const std::scoped_lock lock(mutex_);
    last_sent_ = std::chrono::steady_clock::now();
    for (size_t at = 0; at < frame.size();) {
      const ssize_t written = ::write(out_, frame.data() + at, frame.size() - at);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        broken_ = true;
        return OutputError("answer the trainer", errno);
      }
      at += static_cast<size_t>(written);
    }
    return OkStatus();
  }

  // nullopt at the end.
  Result<std::optional<Frame>> Read() {
    while (true) {
      Result<std::optional<Frame>> frame = TakeFrame(bytes_);
      if (!frame.ok() || frame->has_value()) return frame;
      char some[kReadBytes];
      const ssize_t got = ::read(in_, some, sizeof some);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return SystemError("read from the trainer", errno);
      if (got == 0 && bytes_.empty()) return std::optional<Frame>();
      if (got == 0) return Corrupt("the trainer's last frame ends after {} bytes", bytes_.size());
      bytes_.append(some, static_cast<size_t>(got));
    }
  }

  const int in_;
  const int out_;
  std::string bytes_;
  const EngineMaker& make_;
  std::unique_ptr<RolloutEngine> engine_;
  EngineKind kind_ = EngineKind::kCpu;  // the kind of engine_
  std::mutex mutex_;                    // guards Send
  std::chrono::steady_clock::time_point last_sent_;
  std::atomic<bool> broken_ = false;  // answering is pointless
};

}  // namespace

Status RunRolloutWorker(int in, int out, const EngineMaker& make) {
  return WorkerLoop(in, out, make).Run();
}

}  // namespace nxdkit::trainer
