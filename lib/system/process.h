// Another program that runs beside us: started with the streams and the environment it is given,
// and ended with all that it started.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/system/descriptor.h"

namespace nxdkit {

// The file that `name` stands for: itself when it holds a '/', else the first executable one of
// that name in PATH. nullopt when there is none.
std::optional<std::string> FindProgram(const std::string& name);

// The entries ("NAME=value") of our environment whose name is one of `names` or begins with one of
// `prefixes`, in no order.
std::vector<std::string> EnvironmentOf(std::span<const std::string_view> names,
                                       std::span<const std::string_view> prefixes);

// Of our environment; "" when it is not set.
std::string EnvironmentValue(const char* name);

// "NAME" of an entry "NAME=value".
std::string_view VariableName(std::string_view entry);

// Everything of our environment.
std::vector<std::string> WholeEnvironment();

struct PipeEnds {
  Descriptor read, write;
};
Result<PipeEnds> MakePipe();  // closed on exec

// write(2) without SIGPIPE: EPIPE is all that happens when nobody reads.
ssize_t WriteQuietly(int fd, std::string_view bytes);

struct ProcessOptions {
  std::string program;                        // a path
  std::vector<std::string> words;             // words[0]: what it is called
  std::vector<std::string> environment = {};  // "NAME=value", all that it gets
  int in = -1, out = -1, err = -1;            // become its standard streams; -1: ours
  // What the kernel sends it when the thread that called Start ends; 0: nothing.
  int signal_with_parent = 0;
};

// In a process group of its own, so that Ctrl-C is for us alone; with no other descriptors of ours.
// Move-only; killed with the object. Its group ends with it: what it left running is killed once it
// is found to have ended. Used by one thread at a time.
class Process {
 public:
  using Time = std::chrono::milliseconds;

  // kNotFound with the program when it cannot be started.
  static Result<Process> Start(const ProcessOptions& options);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process() { Kill(); }

  pid_t pid() const { return pid_; }
  bool HasEnded() const;
  // Whether it has ended, `most` later at the latest.
  bool WaitForEnd(Time most) const;
  // SIGTERM to all of its group; when it is not gone after `grace`, and for what is left of the
  // group then, Kill. Returns when none of the group runs any more, or a second later.
  void End(Time grace);
  // SIGKILL to all of its group; waits for the program itself. Leaves no zombie.
  void Kill();

  // After End or Kill: its exit code, or 128 + the signal that ended it. 255 when the system does
  // not tell (SIGCHLD is ignored).
  int exit_code() const;
  std::string EndText() const;  // "exited with 3", "was killed by signal 9"

 private:
  explicit Process(pid_t pid);
  pid_t pid_ = -1;
  Descriptor pidfd_;  // not open on an old kernel
  bool reaped_ = false;
  int status_ = 255 << 8;  // as waitpid tells it: exited with 255
};

}  // namespace nxdkit
