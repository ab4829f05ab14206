// PRIVATE to tools/: what a command gets from its frame.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/progress.h"
#include "tools/cli/option_table.h"
#include "tools/cli/tool_info.h"

namespace nxdkit::tool {

// The options that mean the same in every command; ToolInfo::common says which of the last five it
// takes.
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

void AddCommonOptions(OptionTable& table, const ToolInfo& info, CommonArgs& common);

// One thread only.
class ToolContext {
 public:
  ToolContext(const ToolInfo& info, const CommonArgs& common, bool color_errors);

  const CommonArgs& common() const { return common_; }
  bool json() const { return common_.json; }

  // One line on stderr, not with -q; under --json also in `warnings`.
  void Warn(std::string_view message);
  // One line on stderr, only with -v.
  void Detail(std::string_view message) const;
  // For Progress of lib/base/progress.h: draws on stderr when that is a terminal and -q was not
  // given; else empty, and nothing is drawn.
  Progress::Sink progress_sink() const;

  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  const ToolInfo& info_;
  const CommonArgs& common_;
  bool color_errors_;
  bool draws_progress_;
  std::vector<std::string> warnings_;
};

}  // namespace nxdkit::tool
