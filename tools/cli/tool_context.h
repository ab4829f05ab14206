// PRIVATE to tools/: a command's description of itself, and its access to the frame.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/choice.h"
#include "lib/base/stopwatch.h"
#include "tools/cli/host.h"
#include "tools/cli/option_table.h"

namespace nxdkit::tool {

struct Example {
  std::string command;  // as typed: "nxd-convert --from hf --to nxd --tp 8 model shards"
  std::string what;     // a phrase, no full stop
};

enum CommonOption : unsigned {
  kTakesJobs = 1,       // -j/--jobs
  kTakesMaxMemory = 2,  // --max-memory
  kTakesDryRun = 4,     // -n/--dry-run
  kTakesForce = 8,      // -f/--force
  kTakesResume = 16,    // --resume
};

struct ToolInfo {
  std::string name;     // "nxd-convert"
  std::string summary;  // one line, no full stop: "converts model weights between layouts"
  std::string details;  // paragraphs for --help, separated by '\n'; the man page says more
  // The meaning of exit code 1 here: "the artifacts differ"; "" when it cannot occur.
  std::string findings;
  std::string lost{};   // meaning of exit code 75, for a command that has it
  unsigned common = 0;  // CommonOption bits
  // The lines of the usage, for a command with several forms; none: it is made from the options.
  std::vector<std::string> usages{};
  std::vector<std::string> essentials{};  // names of the options that -h lists
  std::vector<Example> examples;
};

// The options that mean the same in every command; ToolInfo::common selects among the last five.
struct CommonArgs {
  bool help = false;
  std::string help_topic;  // of HelpText
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

// Used by one thread only.
class ToolContext {
 public:
  ToolContext(const ToolInfo& info, const CommonArgs& common, Host& host);

  const CommonArgs& common() const { return common_; }
  bool json() const { return common_.json; }

  // One line on stderr, not with -q; under --json also in `warnings`.
  void Warn(std::string_view message);
  // For `warnings` alone: it has been shown in another way.
  void KeepWarning(std::string_view message) { said_.warnings.emplace_back(message); }
  // The choice among several: one line on stderr, not with -q nor where the user has named it;
  // under --json also in `chosen`.
  void Tell(const Choice& choice);
  void Record(const Choice& choice) { said_.choices.push_back(choice); }  // under --json alone
  void Tell(const Said& said);
  // One line on stderr, not with -q: progress of a long-running command.
  void Note(std::string_view message) const;
  // One line on stderr, only with -v.
  void Detail(std::string_view message) const;
  // Detail: "PATH is an NxD set, recognised by its files", or "as asked";
  // nothing without a kind: the command ended before it opened the path.
  void DetailKind(std::string_view path, const kinds::Kind* kind, bool asked) const;
  Host& host() const { return host_; }
  // The `poll` of anything that runs long: kInterrupted once the command is to stop.
  std::function<Status()> poll() const {
    return [host = &host_] { return host->Poll(); };
  }

  const Said& said() const { return said_; }
  double seconds() const { return watch_.Seconds(); }  // since the command began

 private:
  const ToolInfo& info_;
  const CommonArgs& common_;
  Host& host_;
  const Stopwatch watch_;
  Said said_;
};

}  // namespace nxdkit::tool
