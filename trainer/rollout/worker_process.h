// PRIVATE to trainer/rollout. One worker process at the other end of a socket of its pool.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "trainer/rollout/wire.h"
#include "trainer/rollout/worker_start.h"

namespace nxdkit::trainer {

// Move-only; the process is ended with the object.
class WorkerProcess {
 public:
  explicit WorkerProcess(StartedWorker started)
      : running_(std::move(started.running)), socket_(std::move(started.socket)) {
    Expect();
  }

  pid_t pid() const { return running_->pid(); }
  int fd() const { return socket_.fd(); }
  bool wants_to_write() const { return sent_ < out_.size(); }
  std::chrono::steady_clock::time_point last_heard() const { return last_heard_; }
  void Expect() { last_heard_ = std::chrono::steady_clock::now(); }

  void Queue(FrameKind kind, std::string_view payload) { out_ += MakeFrame(kind, payload); }
  // Sends and receives as far as possible without waiting. False when the other side is gone.
  bool Pump();
  Result<std::optional<Frame>> Take() { return TakeFrame(in_); }

  void HangUp() { socket_.Close(); }
  // Closes its input, and kills it if it still runs `grace` later; returns how it ended: "was
  // killed by signal 9", "exited with 1".
  std::string End(std::chrono::milliseconds grace = {});

 private:
  std::unique_ptr<RunningWorker> running_;
  Descriptor socket_;
  std::string in_, out_;
  size_t sent_ = 0;
  std::chrono::steady_clock::time_point last_heard_;
};

}  // namespace nxdkit::trainer
