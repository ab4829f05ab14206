// PRIVATE to tools/: from the layout options to what they say of an input and of an output.
//
// Options describe the output; where the output's format has no such option, they describe the
// input. An option that fits neither side is a usage error.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/artifact/artifact.h"
#include "formats/artifact/run.h"
#include "formats/hardware/fit.h"
#include "formats/kinds/builder.h"
#include "lib/base/progress.h"
#include "tools/cli/tool_context.h"
#include "tools/conversions/layout_options.h"

namespace nxdkit::tool {

struct Sides {
  ops::InputHints input;
  ops::OutputOptions output;
  std::vector<std::string> notes;                       // what was taken from --layout-from
  hardware::TrainingUse training = {.sequence = 4096};  // of --nodes and --layout-from
};

Result<Sides> SidesOf(const LayoutArgs& args, ops::Kind from, ops::Kind to);

// For a command that only reads: every layout option describes the input.
ops::InputHints HintsOf(const LayoutArgs& args);

// The vendor's packages that programs of this shell would meet.
std::vector<rollout::Installation> InstalledHere();

// Threads, memory cap, interruption and a progress bar, for the time of one command.
class Runner {
 public:
  explicit Runner(const ToolContext& context);
  Runner(const Runner&) = delete;  // its options point into it
  Runner& operator=(const Runner&) = delete;
  const ops::RunOptions& options() const { return options_; }

 private:
  ops::RunOptions options_;
  Progress::Sink sink_;
  std::unique_ptr<Progress> progress_;
};

}  // namespace nxdkit::tool
