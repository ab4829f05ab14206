// Entries of one tree brought into another of the same kind.
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
  bool damaged = false;  // entries that are there and damaged are replaced by whole ones
  bool dry_run = false;
  // Beside the trees, the folder from which binaries of kernels are taken: any path may be written
  // in a tree, and what lies there need not be for everybody.
  std::string kernels = kKernelBinaries;
  std::string neff_tree_locks{};  // the folder of TorchNeuron's locks; "" for none
  std::function<Status()> poll{};
  BlobCheck check_blob{};
  std::optional<std::set<std::string>> only{};  // names of entries; others are passed over
};

struct MergeItem {
  std::string entry;    // its name, or "nki/<key>.json"
  std::string reason;   // copied: "new", "was unfinished", "was damaged"; left: "unfinished",
                        // "damaged", "in use", "differs"
  std::string message;  // the first thing that is wrong, where something is
  uint64_t bytes = 0;
};

struct MergeReport {
  TreeKind kind = TreeKind::kXla;
  std::string from, into;           // the roots that were found
  std::vector<MergeItem> copied;    // with dry_run: that would be
  std::vector<MergeItem> left;      // not copied, and not there either, or not as it is in `from`
  std::vector<MergeItem> unlinked;  // copied, and a binary that the graph names is nowhere
  uint64_t kept = 0;                // were there before
  uint64_t bytes = 0;               // all that was copied
};

// Copies what is whole in `from` and not in `into`. Every copy is built aside, verified, on the
// disk, and then there in one rename: no reader sees a part of one, whatever ends us. What is there
// stays, unfinished entries that nobody works on excepted. `into` need not be there. kUnsupported
// for trees of two kinds, kUsage for a tree and itself.
Result<MergeReport> MergeTree(const std::string& from, const std::string& into,
                              const MergeOptions& options);

}  // namespace nxdkit::neff
