// PRIVATE to formats/ops: what is compiled, and the compiler that does it: run with a clean
// environment, its output in a file, and ended with everything it started when the user interrupts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/models/model.h"
#include "formats/rollout/neuron_config.h"

namespace nxdkit::ops {

// What a blob is compiled from, as one canonical text: the model's configuration without what does
// not touch the graph, the engine's settings and the target (ExportTarget::name). The cache's key
// is made of it.
std::string GraphText(const std::string& config_text, const rollout::NeuronConfig& neuron,
                      const models::ModelConfig& model, const std::string& target);

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

// The variables of this process that a compiler may need (table in compile.cc, documented in
// man/neuron-export.1), and those named in `more`. Sorted.
std::vector<std::string> CompilerEnvironment(const std::vector<std::string>& more);

// Runs it to its end; what it left running is killed then. Standard input is empty. When `poll`
// fails, it and all that it started get SIGTERM and, when it is not gone after five seconds,
// SIGKILL. kNotFound when the program is not there or cannot be started, kIo for the log.
Result<CommandResult> RunCommand(const Command& command);

struct CompileRequest {
  std::string model;  // the Hugging Face folder
  rollout::NeuronConfig neuron;
  std::string output;  // a folder that is not there yet: the compiler makes it
};

inline constexpr char kOptimumCompiler[] = "optimum-cli";
// The command line: `command` followed by the options of `optimum-cli export neuron`; or, when one
// of its words holds {output}, the words alone with {model}, {output}, {tp}, {bs}, {seq},
// {dtype} and {sampling} (device or host) replaced.
std::vector<std::string> CompilerWords(std::vector<std::string> command,
                                       const CompileRequest& request);
// Only a command of its own words can be; optimum-cli has no option for it.
bool IsToldOfSampling(const std::vector<std::string>& command);

// What `neuronx-cc --version` says, "2.21.33363.0+82129205"; "" when it is not in PATH or says no
// version. Blobs of another compiler do not load.
Result<std::string> CompilerVersion(const std::function<Status()>& poll);
// The same of a command: a program, and words that come before its own.
Result<std::string> VersionOf(std::vector<std::string> command,
                              const std::function<Status()>& poll);
// The version in lines that a compiler printed; "" when there is none.
std::string VersionIn(const std::vector<std::string>& lines);

// What is kept of a compiled bundle: names of its blobs and configurations. kUnsupported when
// `folder` is no bundle with a blob.
Result<std::vector<std::string>> CompiledFiles(const std::string& folder);
Status MoveFiles(const std::vector<std::string>& names, const std::string& from,
                 const std::string& to);

}  // namespace nxdkit::ops
