// Another program, run with a clean environment, its output in a file, and ended with everything it
// started when the user interrupts.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/error.h"

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

// The file that `name` stands for: itself when it holds a '/', else the first executable one of
// that name in PATH. nullopt when there is none.
std::optional<std::string> FindProgram(const std::string& name);

// The variables of this process that a compiler may need (table in command.cc, documented in
// man/neuron-export.1), and those named in `more`. Sorted.
std::vector<std::string> CompilerEnvironment(const std::vector<std::string>& more);

// Runs it to its end. Standard input is empty, the process group is its own. When `poll` fails, the
// group gets SIGTERM and, when it is not gone after five seconds, SIGKILL. kNotFound when the
// program is not there or cannot be started, kIo for the log.
Result<CommandResult> RunCommand(const Command& command);

// The words as a shell would take them: "optimum-cli export 'my model'".
std::string CommandText(const std::vector<std::string>& words);

// Splits at white space; '...' and "..." hold white space together. kUsage for an open quote.
Result<std::vector<std::string>> SplitCommand(const std::string& text);

}  // namespace nxdkit::ops
