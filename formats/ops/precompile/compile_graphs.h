// Compiles every graph of a compile cache that has no result: several at once, each under the locks
// of the tree's own programs, so that several machines can work on one shared cache.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/compile_cache/graph.h"
#include "formats/ops/precompile/compiler.h"

namespace nxdkit::ops {

struct NamedReason {
  std::string entry;
  std::string reason;
};

// The graphs that are to be compiled, and those that are not.
struct CompilePlan {
  neff::FoundTree tree;
  bool is_of_run = false;                   // only some entries were wanted, by name
  std::vector<neff::Graph> graphs;          // without a result, the largest first
  std::vector<NamedReason> left;            // without one, and cannot be compiled
  std::vector<std::string> other;           // without one, for another compiler than `compiler`
  uint64_t finished = 0;                    // entries of this compiler that have a result
  std::vector<std::string> finished_other;  // the same for others
  // The compilers that made them, if others than this one: in a tree whose folders do not name it.
  std::vector<std::string> other_builds;
  uint64_t failed_before = 0;       // of `graphs`: tried again
  double saved_seconds = 0;         // compile time of the finished ones, if recorded
  uint64_t noted = 0;               // the number of those
  std::vector<std::string> locked;  // folders of finished ones with a lock file
};
// `wanted`: names of entries; all if absent. One that does not exist is in `left`. Graphs in other
// compilers' folders are listed separately; a compiler without a version counts as the right one.
// `poll` is called in between.
Result<CompilePlan> PlanCompile(const neff::FoundTree& tree, const GraphCompiler& compiler,
                                const std::optional<std::vector<std::string>>& wanted,
                                const std::function<Status()>& poll);

struct CompileItem {
  std::string entry;
  std::string outcome;  // "compiled"; "elsewhere": by another process meanwhile; "failed",
                        // "killed", "too long", "disk full", "cannot run", "locked", "not written"
  std::string message;  // the reason if not
  std::string log;      // a path, if one was kept
  double seconds = 0;   // of all tries
  int tries = 0;
};

// The progress of all graphs.
struct CompileProgress {
  uint64_t total = 0, compiled = 0, elsewhere = 0, failed = 0, running = 0;
  std::vector<std::string> waiting{};  // entries that other processes compile
  double longest_seconds = 0;          // of those that are running
  std::optional<double> seconds_left;  // an estimate, once one has been compiled

  uint64_t left() const { return total - compiled - elsewhere - failed; }
};

struct CompileOptions {
  std::string target;  // for graphs that do not have one
  int jobs = 1;
  std::optional<uint64_t> memory;          // for all together
  std::optional<uint64_t> memory_per_job;  // instead of LikelyCompilerMemory
  int retries = 0;                         // after a failure; one more after a kill or status 70
  double most_seconds = 0;                 // for one run, and for the wait for another process's
  std::string work_folder;                 // in which each run has a folder of its own
  std::function<Status()> poll;
  // Called after each that ended, when others are waited for, and every few minutes (item:
  // nullptr).
  std::function<void(const CompileItem* item, const CompileProgress& progress)> tell;
};

struct CompileReport {
  std::vector<CompileItem> items;  // in the order of their names
  double seconds = 0;
};
// An error in one entry concerns only that entry. If the cache is full, or cannot be written, no
// more are started, and that is the error once the others have ended; finished results stay.
Result<CompileReport> CompileGraphs(const CompilePlan& plan, const GraphCompiler& compiler,
                                    const CompileOptions& options);

}  // namespace nxdkit::ops
