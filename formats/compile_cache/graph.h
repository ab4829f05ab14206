// The graph of an entry, and how the vendor's compiler is told to compile it. Facts: FORMAT.md
// beside this file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/compile_cache/tree.h"

namespace nxdkit::neff {

inline constexpr char kXlaGraphFile[] = "model.hlo_module.pb";
inline constexpr char kOldXlaGraphFile[] = "model.hlo.pb";
// A note of ours in an entry that we compiled (compile_note.h), and the log of a compilation that
// came to nothing but may succeed elsewhere: no engine takes it for a failure.
inline constexpr char kCompileNoteFile[] = "nxdkit-compile.json";
inline constexpr char kCompileLogFile[] = "nxdkit-compile.log";

struct Graph {
  std::string name;        // of the entry
  std::string path;        // of its folder
  std::string compiler{};  // "neuronxcc-2.21..."; "" where the tree does not tell
  std::string file{};      // the graph, a name in the folder
  bool packed = false;     // with gzip
  uint64_t bytes = 0;      // of the graph, unpacked
  // Options of `neuronx-cc compile`, without those that name a file.
  std::vector<std::string> options{};
  EntryState state = EntryState::kEmpty;
  bool has_result = false;  // nothing is to be compiled
  bool has_lock = false;    // a lock's file is there, of a process that works or that died
};

// nullopt for an entry without a graph: one of ours, one of TorchNeuron. kCorrupt when the flags
// are not those that the entry is named after; kUnsupported when it cannot be completed.
Result<std::optional<Graph>> GraphOfEntry(const FoundTree& tree, const CacheEntry& entry);

// The graph as the compiler reads it, written to `to`. kCorrupt for one that is cut, or no module.
Status WriteGraph(const Graph& graph, const std::string& to);
// The same without writing: what a process that was killed while it wrote has left.
Status CheckGraph(const Graph& graph);

// The contents of the flags file of a libneuronxla entry, as a list; nullopt when there is none.
Result<std::optional<std::vector<std::string>>> ReadFlags(const std::string& folder);

}  // namespace nxdkit::neff
