// PRIVATE: the entry of a graph while it is compiled, locked, and then with a result or a failure.
// Facts: FORMAT.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/compile_cache/discard.h"
#include "formats/compile_cache/graph.h"

namespace nxdkit::neff {

// Removes lock files in the entry that nobody holds or has open. One left by a process that died
// locks nothing, but people and scripts believe that it does.
void RemoveIdleLocks(const std::string& folder);

// All locks of an entry that is being compiled: those of the tree's own programs, and ours.
// Move-only; its destructor also removes the lock files that nobody else has open.
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
  std::string idle_in_;  // where idle locks are removed with the last hold; "" for none
  std::vector<EntryHold> holds_;
};

struct CompileNote {
  std::string compiler;  // its version; "" where unknown
  double seconds = 0;
};

// Makes the NEFF at `neff` the result of the locked graph: copied to a temporary name, synced, and
// renamed; then the note; the tree's marker last. An earlier failure is removed. `log`: the
// compiler's output, which a tree of vLLM Neuron keeps.
Status PublishResult(const FoundTree& tree, const Graph& graph, const std::string& neff,
                     std::string_view log, const CompileNote& note);

// Keeps the log of a compilation that failed; returns its path. `remembered`: the compiler rejected
// the graph, and libneuronxla is not to try again; otherwise the log is for people only.
Result<std::string> KeepFailure(const FoundTree& tree, const Graph& graph, std::string_view log,
                                bool remembered);

// The compilation time of the entry, where we noted it.
std::optional<double> NotedSeconds(const std::string& folder);

}  // namespace nxdkit::neff
