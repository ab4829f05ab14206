// PRIVATE to tools/: what a command says about itself.
#pragma once

#include <string>
#include <vector>

namespace nxdkit::tool {

struct Example {
  std::string command;  // as typed: "nxd-convert --from hf --to nxd --tp 8 model shards"
  std::string what;     // a phrase, no full stop
};

// Options that many commands take and that mean the same everywhere.
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
  std::string
      findings;         // what exit code 1 means here: "the artifacts differ"; "" when it cannot be
  unsigned common = 0;  // CommonOption bits
  std::vector<Example> examples;
};

}  // namespace nxdkit::tool
