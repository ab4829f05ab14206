// PRIVATE: merges the kernels of one vLLM Neuron tree into another, with the binaries that they
// name. Facts: FORMAT.md, read from source, not run.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "formats/compile_cache/merge.h"
#include "formats/compile_cache/publish.h"
#include "lib/system/folder_lock.h"

namespace nxdkit::neff {

// Undoes the report of a copied item: it is left for this reason, or, with "", was already there.
void Withdraw(MergeReport& report, const std::string& name, const std::string& reason,
              const std::string& message = "");

struct MovedGraph {
  std::optional<std::string> text;    // nullopt: no path changes
  std::vector<std::string> binaries;  // paths in INTO that it names
};

// Binaries are copied to INTO/nki/binaries/, under names that begin with their digests, and the
// copied files name these paths: so a merged tree has everything that it names. The engine's own
// promotion skips nki/ when there is one already.
//
// The folder of the binaries is locked for reading from the first one on, during the lifetime of
// this object: no prune removes a binary that nothing names yet.
class KernelMover {
 public:
  // The roots are absolute. Nothing is written in a dry run. All arguments must outlive the batch.
  KernelMover(std::string from, std::string into, const MergeOptions& options, Batch& batch,
              MergeReport& report)
      : from_(std::move(from)),
        into_(std::move(into)),
        options_(options),
        batch_(batch),
        report_(report) {}

  Status MergeAll();

  // Copies the binaries of an entry's graph to INTO, and returns the graph with their paths there.
  // Binaries that are missing are added to `missing`.
  Result<MovedGraph> MoveGraph(const std::string& graph, std::vector<std::string>& missing);

  // The first of these, published by now, at whose path there is another file; "" for none.
  std::string LostOf(const std::vector<std::string>& binaries) const;

 private:
  // A kernel being merged.
  struct Moving {
    std::string name;    // nki/<key>.json
    std::string ours;    // KernelWithoutPaths
    std::string source;  // its binary
    std::string binary;  // the same in INTO
    bool replaces = false;
  };
  Status MergeOne(const std::string& name);
  Status Publish(const std::string& aside, const Moving& kernel);
  // Compares INTO's file with ours. The reason is "same", "differs" or "damaged".
  Result<MergeItem> Compare(const Moving& kernel);
  // The binary's path in INTO; "" when it is missing.
  Result<std::string> Bring(const std::string& binary, const std::string& copy);
  // Makes `target` in INTO a copy of `source`.
  Status BringTo(const std::string& source, const std::string& target, const std::string& digest);
  Result<std::string> DigestAt(const std::string& path);  // "sha256:<hex>"; "": no file
  Status CopyAside(const std::string& source, const std::string& target, const std::string& digest);
  Status LockBinaries();

  std::string from_;
  std::string into_;
  const MergeOptions& options_;
  Batch& batch_;
  MergeReport& report_;
  std::optional<FolderLock> lock_;
  std::map<std::string, std::string> brought_;  // path in INTO, by the path named
  std::map<std::string, std::string> copies_;   // likewise for kernels' copies; "" if there are two
  std::map<std::string, std::string> digests_;  // by path; in INTO, as after publication
  std::set<std::string> lost_;                  // paths in INTO that another process took
};

}  // namespace nxdkit::neff
