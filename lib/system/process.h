// Another program that runs next to this one: started with the given streams and environment, and
// ended with all that it started.
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

// The file that `name` stands for: itself if it contains a '/', else the first executable of that
// name in PATH. nullopt if there is none. Empty or relative entries of PATH are skipped: a program
// in the working directory runs if it is named as one, not by chance.
std::optional<std::string> FindProgram(const std::string& name);

// The entries ("NAME=value") of our environment whose name is one of `names` or begins with one of
// `prefixes`, in no particular order.
std::vector<std::string> EnvironmentOf(std::span<const std::string_view> names,
                                       std::span<const std::string_view> prefixes);

std::string EnvironmentValue(const char* name);         // "" if not set
std::string_view VariableName(std::string_view entry);  // "NAME" of "NAME=value"
std::vector<std::string> WholeEnvironment();

// For programs chosen by nxdkit, not by the user: without the empty and relative entries in PATH
// and LD_LIBRARY_PATH, which stand for the working directory, whoever fills that.
std::vector<std::string> WithoutRelativePlaces(std::vector<std::string> environment);

struct PipeEnds {
  Descriptor read, write;
};
Result<PipeEnds> MakePipe();  // closed on exec

// write(2) without SIGPIPE: only EPIPE if nobody reads.
ssize_t WriteQuietly(int fd, std::string_view bytes);

struct ProcessOptions {
  std::string program;                        // a path
  std::vector<std::string> words;             // words[0]: the program's name
  std::vector<std::string> environment = {};  // "NAME=value", complete but for our mark
  int in = -1, out = -1, err = -1;            // become its standard streams; -1: ours
  std::string folder = {};                    // its working directory; "": ours
  // The signal that the kernel sends it when the thread that called Start ends; 0: none.
  int signal_with_parent = 0;
};

// Runs in its own process group, so that Ctrl-C reaches only us; with none of our other
// descriptors. Move-only; killed with the object. All that it started ends with it, whatever group
// or session it is in (lib/system/family.h): processes that it left running are killed once its end
// is noticed. Used by one thread at a time.
class Process {
 public:
  using Time = std::chrono::milliseconds;

  // kNotFound with the program if it cannot be started.
  static Result<Process> Start(const ProcessOptions& options);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process() { Kill(); }

  pid_t pid() const { return pid_; }
  const std::string& mark() const { return mark_; }  // in the environment of all that it started
  bool HasEnded() const;
  // Waits at most `most`; returns whether it has ended.
  bool WaitForEnd(Time most) const;
  // Sends SIGTERM to its whole group; then Kill if it is not gone after `grace`, and for the
  // processes that are left.
  void End(Time grace);
  // Sends SIGKILL to all that it started; waits for the program itself. Leaves no zombie. Returns
  // when none of them runs any more, or a second later.
  void Kill();

  // After End or Kill: its exit code, or 128 + the signal that ended it. 255 if the system does not
  // report it (SIGCHLD is ignored).
  int exit_code() const;
  std::string EndText() const;  // "exited with 3", "was killed by signal 9"

 private:
  Process(pid_t pid, std::string mark);
  void KillFamily() const;

  pid_t pid_ = -1;
  std::string mark_;
  Descriptor pidfd_;  // not open on an old kernel
  bool reaped_ = false;
  int status_ = 255 << 8;  // as waitpid reports it: exited with 255
};

}  // namespace nxdkit
