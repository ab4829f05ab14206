// PRIVATE to tools/: from the layout options to what they say of an input and of an output.
//
// Options describe the output; where the output's kind has no such option, they describe the input.
// An option that fits neither side is a usage error.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/artifact/run.h"
#include "formats/hardware/fit.h"
#include "formats/kinds/output.h"
#include "formats/rollout/installed.h"
#include "tools/cli/tool_context.h"
#include "tools/conversions/kind_options.h"

namespace nxdkit::tool {

struct Sides {
  artifact::InputHints input;
  kinds::OutputOptions output;
  std::vector<std::string> notes;                       // from --layout-from and --instance
  hardware::TrainingUse training = {.sequence = 4096};  // from --nodes and --layout-from
  std::optional<hardware::Instance> instance;           // named by the user
  std::optional<hardware::Instance> here;               // this machine, if none was named
};

Result<Sides> SidesOf(const artifact::Arguments& given, const kinds::Kind& from,
                      const kinds::Kind& to, const ToolContext& context);

// For a command that only reads: every option of a kind describes the input. `prefix`: how the
// options are spelled ("--a-"), where the user can name one of several sets of weights; else "".
artifact::InputHints HintsOf(const artifact::Arguments& given, const std::string& prefix = "--");

// The output as the options alone describe it, independent of this machine.
Result<kinds::OutputOptions> OutputOptionsOf(const artifact::Arguments& given,
                                             const kinds::Kind& from, const kinds::Kind& to);

// For a path that names a source of the caller: sets its kind, unless one is given (not null), and
// the options it was opened with, unless the command sets them. Changes nothing else. kUsage for a
// configuration given for memory, which already has its own.
Status TakeHeld(const ToolContext& context, const std::string& path, const kinds::Kind*& kind,
                artifact::InputHints& hints);

// Opens a source of the caller under the name of a path.
std::function<Result<artifact::Artifact>()> OpenerOf(const HeldSource& held,
                                                     const std::string& path);

// The vendor's packages that programs started from this shell would find.
std::vector<rollout::Installation> InstalledHere();

// Threads, memory cap, interruption and progress, for the time of one command.
class Runner {
 public:
  explicit Runner(const ToolContext& context);
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  ~Runner() { host_.EndPhases(); }
  const artifact::RunOptions& options() const { return options_; }

 private:
  Host& host_;
  artifact::RunOptions options_;
};

}  // namespace nxdkit::tool
