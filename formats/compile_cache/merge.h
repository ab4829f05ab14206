// Merges the entries of one tree into another of the same kind.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "formats/compile_cache/tree.h"
#include "lib/base/error.h"

namespace nxdkit::neff {

inline constexpr char kKernelBinaries[] = "/var/tmp/nki-intermediate-cache";

struct MergeOptions {
  bool damaged = false;  // damaged entries in INTO are replaced by whole ones
  bool dry_run = false;
  // A folder outside the trees from which binaries of kernels may be copied: a tree may name any
  // path, and its file need not be for everybody to read.
  std::string kernels = kKernelBinaries;
  std::string neff_tree_locks{};  // the folder of TorchNeuron's locks; "" for none
  std::function<Status()> poll{};
  BlobCheck check_blob{};
  std::optional<std::set<std::string>> only{};  // names of entries; others are skipped
};

struct MergeItem {
  std::string entry;    // its name, or "nki/<key>.json"
  std::string reason;   // copied: "new", "was unfinished", "was damaged"; left: "unfinished",
                        // "damaged", "in use", "differs"
  std::string message;  // the first fault, if there is one
  uint64_t bytes = 0;
};

struct MergeReport {
  TreeKind kind = TreeKind::kXla;
  std::string from, into;           // the roots that were found
  std::vector<MergeItem> copied;    // with dry_run: would be copied
  std::vector<MergeItem> left;      // not copied, and absent from INTO or different there
  std::vector<MergeItem> unlinked;  // copied, but a binary that the graph names is missing
  uint64_t kept = 0;                // already in INTO
  uint64_t bytes = 0;               // of all that was copied
};

// Copies the entries that are whole in `from` and not in `into`. Every copy is built under a
// temporary name, verified, synced, and published with one rename: no reader sees a part of one,
// however we end. Existing entries stay, except unfinished ones that nobody works on. `into` need
// not exist. kUnsupported for trees of two kinds, kUsage for merging a tree into itself.
Result<MergeReport> MergeTree(const std::string& from, const std::string& into,
                              const MergeOptions& options);

}  // namespace nxdkit::neff
