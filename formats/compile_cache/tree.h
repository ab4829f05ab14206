// The kinds of trees that hold compiled graphs, and how a folder is recognised as one. Facts:
// FORMAT.md.
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
// The root, below the folders named by the variables of vLLM Neuron.
inline constexpr char kBelowVariable[] = "neuron/compile_cache";
inline constexpr TreeKind kTreeKinds[] = {TreeKind::kXla, TreeKind::kLite, TreeKind::kNeff};
std::string_view TreeName(TreeKind kind);  // "libneuronxla", "vllm-neuron", "torch-neuronx"

// A folder that is a tree, or may become one.
struct FoundTree {
  std::string root;
  TreeKind kind = TreeKind::kXla;
  bool is_empty = false;  // the kind is unknown; `kind` is then kXla
  // Another tree with entries here, which count as strangers in a libneuronxla tree.
  std::optional<TreeKind> also{};
  // A libneuronxla tree in kOldPlace of the folder that was named (place.h).
  bool is_old_place = false;
};
// Recognises the tree at a path. If a folder is not a tree and contains neuron/compile_cache, that
// one is taken: the engine's variables name the folder above. Readers and removers also find
// libneuronxla's old place (place.h). kUnsupported for entries of both other trees in one folder.
Result<FoundTree> FindTree(const std::string& path);
Result<FoundTree> FindTreeToWrite(const std::string& path);
// kUnsupported for entries of two trees in one folder.
Status CheckNotMixed(const FoundTree& tree);

Result<CacheListing> ListTreeOf(const FoundTree& tree, const TreeMoment& moment);

struct TreeFault {
  std::string entry;  // "" for files outside entries
  std::string file;   // in the entry, or below the root; "" for the entry
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
// Checks finished entries in a libneuronxla tree; in the others all entries, and files outside
// them.
Result<TreeCheck> VerifyTree(TreeKind kind, const CacheListing& listing, const TreeMoment& moment,
                             const TreeCheckOptions& options);

// The current state of one entry, by its name; kNotFound. Then its faults, without its paths.
Result<CacheEntry> ReadEntryOf(const FoundTree& tree, const std::string& name,
                               const TreeMoment& moment);
Result<std::vector<EntryFault>> VerifyEntryOf(TreeKind kind, const CacheEntry& entry,
                                              const TreeCheckOptions& options);

}  // namespace nxdkit::neff
