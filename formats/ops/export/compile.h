// PRIVATE to formats/ops: the input of the compiler, and its run: with a clean environment, its
// output in a file, ended with everything it started when the user interrupts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/models/model.h"
#include "formats/rollout/neuron_config.h"

namespace nxdkit::ops {

// The input from which a blob is compiled, as one canonical text: the model's configuration without
// keys that do not affect the graph, the engine's settings and the target (ExportTarget::name). The
// cache's key is made from it.
std::string GraphText(const std::string& config_text, const rollout::NeuronConfig& neuron,
                      const models::ModelConfig& model, const std::string& target);

struct Command {
  std::vector<std::string> words;        // words[0]: a path, or a name looked up in PATH
  std::vector<std::string> environment;  // "NAME=value", complete
  std::string log;                       // standard output and error; made anew
  std::function<Status()> poll;          // its error (kInterrupted) ends the program
};

struct CommandResult {
  int exit_code = 0;  // 128 + signal if a signal ended it
  std::vector<std::string> last_lines;
};

// The variables of this process that a compiler may need (table in compile.cc, documented in
// man/neuron-export.1), and those named in `more`. Sorted.
std::vector<std::string> CompilerEnvironment(const std::vector<std::string>& more);

// Runs it to its end; processes that it left running are killed then. Standard input is empty. If
// `poll` fails, it and all that it started get SIGTERM and, if it is not gone after five seconds,
// SIGKILL. kNotFound if the program does not exist or cannot be started, kIo for the log.
Result<CommandResult> RunCommand(const Command& command);

struct CompileRequest {
  std::string model;  // the Hugging Face folder
  rollout::NeuronConfig neuron;
  std::string output;  // a new folder: the compiler makes it
};

inline constexpr char kOptimumCompiler[] = "optimum-cli";
// The command line: `command` followed by the options of `optimum-cli export neuron`; or, if one of
// its words contains {output}, only the words, with {model}, {output}, {tp}, {bs}, {seq}, {dtype}
// and {sampling} (device or host) replaced.
std::vector<std::string> CompilerWords(std::vector<std::string> command,
                                       const CompileRequest& request);
// Only a command with words of its own can be; optimum-cli has no option for it.
bool IsToldOfSampling(const std::vector<std::string>& command);

// The version from `neuronx-cc --version`, "2.21.33363.0+82129205"; "" if it is not in PATH or
// prints no version. Blobs of another compiler do not load.
Result<std::string> CompilerVersion(const std::function<Status()>& poll);
// The same for a command: a program, and words before its own.
Result<std::string> VersionOf(std::vector<std::string> command,
                              const std::function<Status()>& poll);
// The version in lines that a compiler printed; "" if there is none.
std::string VersionIn(const std::vector<std::string>& lines);

// The files to keep of a compiled bundle: names of its blobs and configurations. kUnsupported if
// `folder` is not a bundle with a blob.
Result<std::vector<std::string>> CompiledFiles(const std::string& folder);
Status MoveFiles(const std::vector<std::string>& names, const std::string& from,
                 const std::string& to);

}  // namespace nxdkit::ops
