// The graph of an entry, and the compiler options for it. Facts: FORMAT.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/compile_cache/tree.h"

namespace nxdkit::neff {

inline constexpr char kXlaGraphFile[] = "model.hlo_module.pb";
inline constexpr char kOldXlaGraphFile[] = "model.hlo.pb";
// Our note in an entry that we compiled (compile_note.h), and the log of a compilation that failed
// but may succeed elsewhere: engines do not take it for a failure.
inline constexpr char kCompileNoteFile[] = "nxdkit-compile.json";
inline constexpr char kCompileLogFile[] = "nxdkit-compile.log";

struct Graph {
  std::string name;        // of the entry
  std::string path;        // of its folder
  std::string compiler{};  // "neuronxcc-2.21..."; "" where the tree does not record it
  std::string file{};      // the graph, a name in the folder
  bool packed = false;     // compressed with gzip
  uint64_t bytes = 0;      // of the graph, unpacked
  // Options of `neuronx-cc compile`, without those that name a file.
  std::vector<std::string> options{};
  EntryState state = EntryState::kEmpty;
  bool has_result = false;  // nothing needs compiling
  bool has_lock = false;    // a lock file exists, its process alive or dead
};

// nullopt for an entry without a graph: one of ours, or of TorchNeuron. kCorrupt when the entry's
// name does not follow from the flags; kUnsupported when it cannot be completed.
Result<std::optional<Graph>> GraphOfEntry(const FoundTree& tree, const CacheEntry& entry);

// Writes the graph to `to` as the compiler reads it. kCorrupt for a truncated graph, or one that is
// not a module.
Status WriteGraph(const Graph& graph, const std::string& to);
// WriteGraph's checks without writing: finds the graph of a process that was killed while writing.
Status CheckGraph(const Graph& graph);

// The contents of the flags file of a libneuronxla entry, as a list; nullopt when there is none.
Result<std::optional<std::vector<std::string>>> ReadFlags(const std::string& folder);

}  // namespace nxdkit::neff
