// The trees in which compiled graphs are kept, and which of them a folder is. Facts: FORMAT.md
// beside this file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/compile_cache/leftovers.h"
#include "formats/compile_cache/verify_entry.h"

namespace nxdkit::neff {

enum class TreeKind : uint8_t {
  kXla,   // libneuronxla's, and neuron-export's (cache.h)
  kLite,  // vLLM Neuron's (lite_tree.h)
  kNeff   // TorchNeuron's (neff_tree.h)
};
// The root, below the folders that the variables of vLLM Neuron name.
inline constexpr char kBelowVariable[] = "neuron/compile_cache";
inline constexpr TreeKind kTreeKinds[] = {TreeKind::kXla, TreeKind::kLite, TreeKind::kNeff};
std::string_view TreeName(TreeKind kind);  // "libneuronxla", "vllm-neuron", "torch-neuronx"

// A folder that is a tree, or may become one.
struct FoundTree {
  std::string root;
  TreeKind kind = TreeKind::kXla;
  bool is_empty = false;  // nothing says what it is; `kind` is then kXla
  // Another tree of which there are entries. They are strangers in one of libneuronxla.
  std::optional<TreeKind> also{};
  // A tree of libneuronxla in kOldPlace of the folder that was named (place.h).
  bool is_old_place = false;
};
// Asks what lies there. A folder that is no tree, with neuron/compile_cache in it, stands for that
// one: the variables of the engine name the folder above. Who reads or removes finds the old place
// of libneuronxla so (place.h). kUnsupported for entries of both other trees in one folder.
Result<FoundTree> FindTree(const std::string& path);
Result<FoundTree> FindTreeToWrite(const std::string& path);
// kUnsupported for entries of two trees in one folder.
Status CheckNotMixed(const FoundTree& tree);

Result<CacheListing> ListTreeOf(const FoundTree& tree, const TreeMoment& moment);

struct TreeFault {
  std::string entry;  // "" for what lies beside entries
  std::string file;   // in the entry, or below the root; "" for the entry itself
  std::string message;
  Severity severity = Severity::kDamage;
};
struct TreeCheck {
  uint64_t checked = 0;  // entries
  std::vector<TreeFault> faults;
};
struct TreeCheckOptions {
  std::function<Status()> poll;
  BlobCheck check_blob;
};
// Finished entries of the first tree are checked; all of the others, and what lies beside them.
Result<TreeCheck> VerifyTree(TreeKind kind, const CacheListing& listing, const TreeMoment& moment,
                             const TreeCheckOptions& options);

// One entry as it is now, by its name; kNotFound. And its faults, its paths aside.
Result<CacheEntry> ReadEntryOf(const FoundTree& tree, const std::string& name,
                               const TreeMoment& moment);
Result<std::vector<EntryFault>> VerifyEntryOf(TreeKind kind, const CacheEntry& entry,
                                              const TreeCheckOptions& options);

}  // namespace nxdkit::neff
