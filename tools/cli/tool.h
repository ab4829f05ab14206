// PRIVATE to tools/: the frame every command stands in. It parses the options, runs the command,
// prints the answer or the error once, as text or as JSON, and turns the outcome into the exit
// code.
//
//   struct Args { std::string input; LayoutArgs layout; };
//   void AddOptions(OptionTable& table, Args& args) { table.Positional("INPUT", &args.input,
//   "..."); } Result<ToolAnswer> Run(const Args& args, ToolContext& context) { ... } int main(int
//   argc, char** argv) { return RunTool<Args>(argc, argv, kInfo, AddOptions, Run); }
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/progress.h"
#include "lib/json/json.h"
#include "tools/cli/option_table.h"
#include "tools/cli/tool_info.h"

namespace nxdkit::tool {

// The options that mean the same in every command; which of the last five are taken stands in
// ToolInfo::common.
struct CommonArgs {
  bool help = false;
  bool version = false;
  bool quiet = false;
  bool verbose = false;
  bool json = false;
  std::string color = "auto";  // auto, always, never
  std::optional<std::string> completion;
  int jobs = 1;
  uint64_t max_memory = uint64_t{512} << 20;
  bool dry_run = false;
  bool force = false;
  bool resume = false;
};

// What a command found. A failure is an Error instead, or findings when the answer is "no".
struct ToolAnswer {
  std::string text;              // for people, on stdout without --json; ends with a line feed
  Json fields = Json::object();  // for --json, beside the envelope's own keys
  bool findings = false;         // exit code 1, status "findings"
};

// What the command gets from its frame. One thread only.
class ToolContext {
 public:
  ToolContext(const ToolInfo& info, const CommonArgs& common, bool color_errors);

  const CommonArgs& common() const { return common_; }
  bool json() const { return common_.json; }

  // One line on stderr, not with -q; under --json also in `warnings`.
  void Warn(std::string_view message);
  // One line on stderr, only with -v.
  void Detail(std::string_view message) const;
  // For Progress of lib/base/progress.h: draws on stderr when that is a terminal and -q was not given;
  // else empty, and nothing is drawn.
  Progress::Sink progress_sink() const;

  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  const ToolInfo& info_;
  const CommonArgs& common_;
  bool color_errors_;
  bool draws_progress_;
  std::vector<std::string> warnings_;
};

using AddOptionsFunction = std::function<void(OptionTable&)>;
using RunFunction = std::function<Result<ToolAnswer>(ToolContext&)>;

// Returns the exit code of the process. Nothing escapes: an exception is exit code 70.
int RunTool(int argc, const char* const* argv, const ToolInfo& info,
            const AddOptionsFunction& add_options, const RunFunction& run);

template <typename Args>
int RunTool(int argc, const char* const* argv, const ToolInfo& info,
            void (*add_options)(OptionTable&, Args&),
            Result<ToolAnswer> (*run)(const Args&, ToolContext&)) {
  Args args;
  return RunTool(
      argc, argv, info, [&](OptionTable& table) { add_options(table, args); },
      [&](ToolContext& context) { return run(args, context); });
}

}  // namespace nxdkit::tool
