// Private: running the compiler for one bundle.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/ops/export/command.h"
#include "formats/rollout/neuron_config.h"
#include "lib/base/error.h"

namespace nxdkit::ops {

struct CompileRequest {
  std::string model;  // the Hugging Face folder
  rollout::NeuronConfig neuron;
  std::string output;  // a folder that is not there yet: the compiler makes it
};

// The command line: `command` followed by the options of `optimum-cli export neuron`; or, when one
// of its words holds {output}, the words alone with {model}, {output}, {tp}, {bs}, {seq} and
// {dtype} replaced.
std::vector<std::string> CompilerWords(std::vector<std::string> command,
                                       const CompileRequest& request);

// What `neuronx-cc --version` says, "2.21.33363.0+82129205"; "" when it is not in PATH or says no
// version. Blobs of another compiler do not load.
Result<std::string> CompilerVersion(const std::function<Status()>& poll);

// What is kept of a compiled bundle: names of its blobs and configurations. kUnsupported when
// `folder` is no bundle with a blob.
Result<std::vector<std::string>> CompiledFiles(const std::string& folder);
Status MoveFiles(const std::vector<std::string>& names, const std::string& from,
                 const std::string& to);

}  // namespace nxdkit::ops
