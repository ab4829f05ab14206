// A compiler, run with a clean environment, its output in a file, and ended with everything it
// started when the user interrupts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::ops {

struct Command {
  std::vector<std::string> words;        // words[0]: a path, or a name looked up in PATH
  std::vector<std::string> environment;  // "NAME=value", all that it gets
  std::string log;                       // standard output and error; made anew
  std::function<Status()> poll;          // an error (kInterrupted) ends the program
};

struct CommandResult {
  int exit_code = 0;  // 128 + signal when a signal ended it
  std::vector<std::string> last_lines;
};

// The variables of this process that a compiler may need (table in command.cc, documented in
// man/neuron-export.1), and those named in `more`. Sorted.
std::vector<std::string> CompilerEnvironment(const std::vector<std::string>& more);

// Runs it to its end; what it left running is killed then. Standard input is empty. When `poll`
// fails, it and all that it started get SIGTERM and, when it is not gone after five seconds,
// SIGKILL. kNotFound when the program is not there or cannot be started, kIo for the log.
Result<CommandResult> RunCommand(const Command& command);

}  // namespace nxdkit::ops
