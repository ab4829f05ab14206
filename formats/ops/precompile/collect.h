// The graphs that a program compiles, collected without compiling any: libneuronxla's own mode, in
// which it writes graphs into the cache and executes nothing. Source: AWS's guide to
// neuron_parallel_compile, and the environment that its users saw.
//
// The program gets a cache of its own, empty. So what it uses is known to the entry, also where the
// real cache has it, and what a crash cut short never gets there.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/compile_cache/graph.h"
#include "formats/ops/precompile/compile_graphs.h"

namespace nxdkit::ops {

// "NAME=value" of a program that is to write its graphs into the cache `root`: `environment` with
// the two variables of the mode, and with the cache where both ways name it. kUsage for
// NEURON_CC_FLAGS that a shell could not split, and for --no_cache in them.
Result<std::vector<std::string>> CollectEnvironment(std::vector<std::string> environment,
                                                    const std::string& root);

// Names of the caches that programs are given. One in the cache itself is named as what prune knows
// to remove.
inline constexpr char kCheckScratch[] = "nxdkit-check";

struct ProgramEnd {
  int exit_code = 0;
  std::string text;  // "exited with 3", "was killed by signal 9"
};
// Runs the program to its end; all that it says goes to our standard error. When `poll` fails it
// gets SIGTERM, and SIGKILL ten seconds later. kUsage when it cannot be started.
Result<ProgramEnd> RunCollecting(const std::vector<std::string>& command,
                                 const std::vector<std::string>& environment,
                                 const std::function<Status()>& poll);

struct CollectedGraphs {
  neff::FoundTree tree;
  std::vector<neff::Graph> graphs;  // whole ones
  std::vector<NamedReason> left;    // cut, or nothing says how they are compiled
};
// The graphs in a folder, a cache of libneuronxla. Empty where there is none.
Result<CollectedGraphs> GraphsIn(const std::string& root, const std::function<Status()>& poll);

struct UsedGraph {
  std::string entry;
  std::string state;    // "new"; "there": it has a result; "failed" before; "waiting": it has none
  std::string message;  // why it failed
};
// Moves the graphs into the cache, each whole or not at all; what is there stays, but for graphs
// and flags that are cut. The order is that of `collected`.
Result<std::vector<UsedGraph>> AddGraphs(const CollectedGraphs& collected, const std::string& root,
                                         const std::function<Status()>& poll);

}  // namespace nxdkit::ops
