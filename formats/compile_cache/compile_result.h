// PRIVATE: the entry of a graph while it is compiled, held, and then with a result or a failure.
// Facts: FORMAT.md beside this file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/compile_cache/discard.h"
#include "formats/compile_cache/graph.h"

namespace nxdkit::neff {

// Removes the files of locks in the entry that nobody holds or has open. One that was left by a
// process that died is no lock, but people and scripts take it for one.
void RemoveIdleLocks(const std::string& folder);

// All locks of an entry that is being compiled: those of the tree's own programs, and ours.
// Move-only; with it the files of the locks go that nobody else has open.
class CompileHold {
 public:
  // nullopt: somebody works on the entry.
  static Result<std::optional<CompileHold>> Try(const FoundTree& tree, const Graph& graph,
                                                const TreeMoment& moment);
  CompileHold(CompileHold&& other) noexcept = default;
  CompileHold& operator=(CompileHold&& other) = delete;
  ~CompileHold();

 private:
  explicit CompileHold(std::string idle_in) : idle_in_(std::move(idle_in)) {}
  std::string idle_in_;  // the folder whose idle locks go with the last hold; "" for none
  std::vector<EntryHold> holds_;
};

struct CompileNote {
  std::string compiler;  // its version; "" where it does not say
  double seconds = 0;
};

// The NEFF at `neff` becomes the result of the graph that is held: copied aside, brought to the
// disk, and renamed; then the note; the marker of the tree last. A failure from before goes.
// `log`: what the compiler said, which a tree of vLLM Neuron keeps.
Status PublishResult(const FoundTree& tree, const Graph& graph, const std::string& neff,
                     std::string_view log, const CompileNote& note);

// Keeps the log of a compilation that failed. `remembered`: the compiler gave the graph up, and
// libneuronxla is not to try again; else the log is for people alone. The path of the log.
Result<std::string> KeepFailure(const FoundTree& tree, const Graph& graph, std::string_view log,
                                bool remembered);

// How long the entry was compiled, where we noted it.
std::optional<double> NotedSeconds(const std::string& folder);

}  // namespace nxdkit::neff
