// Every graph of a compile cache that has no result, compiled: several at once, each under the
// locks of the tree's own programs, so that several machines can work on one shared cache.
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
  bool is_of_run = false;                   // some entries were wanted, by their names
  std::vector<neff::Graph> graphs;          // without a result, the largest first
  std::vector<NamedReason> left;            // without one, and cannot be compiled
  std::vector<std::string> other;           // without one, and of another compiler than `compiler`
  uint64_t finished = 0;                    // entries of this compiler that have a result
  std::vector<std::string> finished_other;  // the same of others
  // The compilers that made them, where another did: in a tree whose folders do not tell it.
  std::vector<std::string> other_builds;
  uint64_t failed_before = 0;       // of `graphs`: they are tried again
  double saved_seconds = 0;         // what the finished ones took to compile, as far as it is noted
  uint64_t noted = 0;               // so many of them
  std::vector<std::string> locked;  // folders of finished ones in which a lock's file lies
};
// `wanted`: names of entries; without it all. One that is not there is in `left`. Graphs of other
// compilers' folders are set apart; a compiler that says no version is taken for the right one.
// `poll` is asked in between.
Result<CompilePlan> PlanCompile(const neff::FoundTree& tree, const GraphCompiler& compiler,
                                const std::optional<std::vector<std::string>>& wanted,
                                const std::function<Status()>& poll);

struct CompileItem {
  std::string entry;
  std::string outcome;  // "compiled"; "elsewhere": by another process meanwhile; "failed",
                        // "killed", "too long", "disk full", "cannot run", "locked", "not written"
  std::string message;  // why not
  std::string log;      // a path, where one was kept
  double seconds = 0;   // of all tries
  int tries = 0;
};

// How far it is.
struct CompileProgress {
  uint64_t total = 0, compiled = 0, elsewhere = 0, failed = 0, running = 0;
  std::vector<std::string> waiting{};  // entries that other processes compile
  double longest_seconds = 0;          // of those that run
  std::optional<double> seconds_left;  // an estimate, once one was compiled

  uint64_t left() const { return total - compiled - elsewhere - failed; }
};

struct CompileOptions {
  std::string target;  // for graphs that do not say it
  int jobs = 1;
  std::optional<uint64_t> memory;          // for all together
  std::optional<uint64_t> memory_per_job;  // in the place of LikelyCompilerMemory
  int retries = 0;          // after a failure; one after a kill or status 70 comes besides
  double most_seconds = 0;  // of one run, and of waiting for another process's
  std::string work_folder;  // where each run has a folder of its own
  std::function<Status()> poll;
  // After each that came to an end, when others are waited for, and every few minutes (item:
  // nullptr).
  std::function<void(const CompileItem* item, const CompileProgress& progress)> tell;
};

struct CompileReport {
  std::vector<CompileItem> items;  // in the order of their names
  double seconds = 0;
};
// Faults of one entry are that entry's. Where the cache is full, or cannot be written, no more are
// begun, and that is the error once the others have ended; what is finished stays.
Result<CompileReport> CompileGraphs(const CompilePlan& plan, const GraphCompiler& compiler,
                                    const CompileOptions& options);

}  // namespace nxdkit::ops
