// The graphs that a program compiles, collected without compiling any: libneuronxla's own mode, in
// which it writes graphs into the cache and executes nothing. Source: AWS's guide to
// neuron_parallel_compile, and the environment that its users saw.
//
// The program gets an empty cache of its own. So the entries that it uses are known, even those
// that the real cache has, and entries truncated by a crash never get into that one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/compile_cache/graph.h"
#include "formats/ops/precompile/compile_graphs.h"

namespace nxdkit::ops {

// The environment ("NAME=value") of a program that is to write its graphs into the cache `root`:
// `environment` with the two variables of the mode, and with the cache set in both ways. kUsage for
// NEURON_CC_FLAGS that a shell could not split, and for --no_cache in them.
Result<std::vector<std::string>> CollectEnvironment(std::vector<std::string> environment,
                                                    const std::string& root);

// Names of the caches that programs are given. One inside the cache itself has a name that prune
// can remove.
inline constexpr char kCheckScratch[] = "nxdkit-check";

struct ProgramEnd {
  int exit_code = 0;
  std::string text;  // "exited with 3", "was killed by signal 9"
};
// Runs the program to its end; all its output goes to our standard error. If `poll` fails it gets
// SIGTERM, and SIGKILL ten seconds later. kUsage if it cannot be started.
Result<ProgramEnd> RunCollecting(const std::vector<std::string>& command,
                                 const std::vector<std::string>& environment,
                                 const std::function<Status()>& poll);

struct CollectedGraphs {
  neff::FoundTree tree;
  std::vector<neff::Graph> graphs;  // whole ones
  std::vector<NamedReason> left;    // truncated, or without flags to compile them
};
// The graphs in a folder, a cache of libneuronxla. Empty if there is none.
Result<CollectedGraphs> GraphsIn(const std::string& root, const std::function<Status()>& poll);

struct UsedGraph {
  std::string entry;
  std::string state;    // "new"; "there": has a result; "failed" before; "waiting": has none
  std::string message;  // the reason for a failure
};
// Moves the graphs into the cache, each completely or not at all; existing entries stay, except
// truncated graphs and flags. The order is that of `collected`.
Result<std::vector<UsedGraph>> AddGraphs(const CollectedGraphs& collected, const std::string& root,
                                         const std::function<Status()>& poll);

}  // namespace nxdkit::ops
