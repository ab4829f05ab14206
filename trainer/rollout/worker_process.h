// PRIVATE to trainer/rollout. One worker process: started with an environment of its own, spoken to
// over a socket, ended with all that it started.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "lib/system/process.h"
#include "trainer/rollout/wire.h"

namespace nxdkit::trainer {

// What a worker gets of our environment (a table of names: paths, locale, libraries), and `more`
// ("NAME=value"), which wins. Never what configures Neuron devices: that is said for each side
// apart. Threads that wait for each other do not spin for long, unless `more` says so. Sorted.
std::vector<std::string> WorkerEnvironment(const std::vector<std::string>& more);

// Move-only; the process is killed and waited for with the object.
class WorkerProcess {
 public:
  // The worker reads frames from its standard input and writes them to its standard output; its
  // standard error is appended to `log_file`, or is ours without one. command[0] is a path.
  // `signal`: what the kernel sends it when the thread that called this ends; 0: nothing, its input
  // ends then. kNotFound when it cannot be started.
  static Result<WorkerProcess> Start(const std::vector<std::string>& command,
                                     const std::vector<std::string>& environment,
                                     const std::string& log_file, int signal);

  pid_t pid() const { return process_.pid(); }
  int fd() const { return socket_.fd(); }
  bool wants_to_write() const { return sent_ < out_.size(); }
  std::chrono::steady_clock::time_point last_heard() const { return last_heard_; }
  void Expect() { last_heard_ = std::chrono::steady_clock::now(); }

  void Queue(FrameKind kind, std::string_view payload) { out_ += MakeFrame(kind, payload); }
  // Moves what can be moved without waiting. False when the other side is gone.
  bool Pump();
  Result<std::optional<Frame>> Take() { return TakeFrame(in_); }

  void HangUp() { socket_.Close(); }
  // Ends its input, and kills it if it still runs `grace` later; how it ended: "was killed by
  // signal 9", "exited with 1".
  std::string End(std::chrono::milliseconds grace = {});

 private:
  WorkerProcess(Process process, Descriptor socket)
      : process_(std::move(process)), socket_(std::move(socket)) {
    Expect();
  }
  Process process_;
  Descriptor socket_;
  std::string in_, out_;
  size_t sent_ = 0;
  std::chrono::steady_clock::time_point last_heard_;
};

}  // namespace nxdkit::trainer
