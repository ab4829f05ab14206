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
// that name in PATH. nullopt when there is none. Entries of PATH that are empty or relative are
// passed over: a program of the working directory runs when it is named as one, not by chance.
std::optional<std::string> FindProgram(const std::string& name);

// The entries ("NAME=value") of our environment whose name is one of `names` or begins with one of
// `prefixes`, in no order.
std::vector<std::string> EnvironmentOf(std::span<const std::string_view> names,
                                       std::span<const std::string_view> prefixes);

std::string EnvironmentValue(const char* name);         // "" when it is not set
std::string_view VariableName(std::string_view entry);  // "NAME" of "NAME=value"
std::vector<std::string> WholeEnvironment();

// For programs that we have chosen, not the user: without the empty and relative places in PATH and
// LD_LIBRARY_PATH, which stand for the working directory, whoever fills that.
std::vector<std::string> WithoutRelativePlaces(std::vector<std::string> environment);

struct PipeEnds {
  Descriptor read, write;
};
Result<PipeEnds> MakePipe();  // closed on exec

// write(2) without SIGPIPE: EPIPE is all that happens when nobody reads.
ssize_t WriteQuietly(int fd, std::string_view bytes);

struct ProcessOptions {
  std::string program;                        // a path
  std::vector<std::string> words;             // words[0]: what it is called
  std::vector<std::string> environment = {};  // "NAME=value", all that it gets but for our mark
  int in = -1, out = -1, err = -1;            // become its standard streams; -1: ours
  std::string folder = {};                    // where it begins; "": where we are
  // What the kernel sends it when the thread that called Start ends; 0: nothing.
  int signal_with_parent = 0;
};

// In a process group of its own, so that Ctrl-C is for us alone; with no other descriptors of ours.
// Move-only; killed with the object. All that it started ends with it, in whatever group or session
// (lib/system/family.h): what it left running is killed once it is found to have ended. Used by one
// thread at a time.
class Process {
 public:
  using Time = std::chrono::milliseconds;

  // kNotFound with the program when it cannot be started.
  static Result<Process> Start(const ProcessOptions& options);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process() { Kill(); }

  pid_t pid() const { return pid_; }
  const std::string& mark() const { return mark_; }  // in the environment of all that it started
  bool HasEnded() const;
  // Whether it has ended, `most` later at the latest.
  bool WaitForEnd(Time most) const;
  // SIGTERM to all of its group; when it is not gone after `grace`, and for what is left of what it
  // started then, Kill.
  void End(Time grace);
  // SIGKILL to all that it started; waits for the program itself. Leaves no zombie. Returns when
  // none of them runs any more, or a second later.
  void Kill();

  // After End or Kill: its exit code, or 128 + the signal that ended it. 255 when the system does
  // not tell (SIGCHLD is ignored).
  int exit_code() const;
  std::string EndText() const;  // "exited with 3", "was killed by signal 9"

 private:
  Process(pid_t pid, std::string mark);
  void KillFamily() const;

  pid_t pid_ = -1;
  std::string mark_;
  Descriptor pidfd_;  // not open on an old kernel
  bool reaped_ = false;
  int status_ = 255 << 8;  // as waitpid tells it: exited with 255
};

}  // namespace nxdkit
