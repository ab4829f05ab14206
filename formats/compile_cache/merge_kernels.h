// PRIVATE: the kernels of one vLLM Neuron tree brought into another, with the binaries that they
// name. Facts: FORMAT.md beside this file, read from source, not run.
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

// Takes back that an item was copied: it is left for this reason, or with "" was there already.
void Withdraw(MergeReport& report, const std::string& name, const std::string& reason,
              const std::string& message = "");

struct MovedGraph {
  std::optional<std::string> text;    // nullopt: no path changes
  std::vector<std::string> binaries;  // paths in INTO that it names
};

// Binaries go to INTO/nki/binaries/, under names that begin with their digests, and the paths in
// what is copied are those: so a tree that was merged together has all that it names. The engine's
// own promotion leaves out what is in nki/ when there is a nki/ already.
//
// The folder of the binaries is locked for reading from the first one on, as long as this lives: no
// prune takes one that nothing names yet.
class KernelMover {
 public:
  // The roots are absolute. Nothing is written in a dry run. All live longer than the batch waits.
  KernelMover(std::string from, std::string into, const MergeOptions& options, Batch& batch,
              MergeReport& report)
      : from_(std::move(from)),
        into_(std::move(into)),
        options_(options),
        batch_(batch),
        report_(report) {}

  Status MergeAll();

  // The graph of an entry with the paths of binaries as they are in INTO, which are brought there.
  // Binaries that are nowhere go to `missing`.
  Result<MovedGraph> MoveGraph(const std::string& graph, std::vector<std::string>& missing);

  // One of these, published by now, at whose path another file lies; "" for none.
  std::string LostOf(const std::vector<std::string>& binaries) const;

 private:
  // A kernel on its way.
  struct Moving {
    std::string name;    // nki/<key>.json
    std::string ours;    // KernelWithoutPaths
    std::string source;  // its binary
    std::string binary;  // the same in INTO
    bool replaces = false;
  };
  Status MergeOne(const std::string& name);
  Status Publish(const std::string& aside, const Moving& kernel);
  // The reason is "same", "differs" or "damaged": of INTO's file, beside ours.
  Result<MergeItem> Compare(const Moving& kernel);
  // Where the binary is in INTO; "" when it is nowhere.
  Result<std::string> Bring(const std::string& binary, const std::string& copy);
  // `target` in INTO, which is to be the same as `source`.
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
  std::map<std::string, std::string> brought_;  // from the path that is named, to that in INTO
  std::map<std::string, std::string> copies_;   // the same of kernels' copies; "": there are two
  std::map<std::string, std::string> digests_;  // by path; of INTO's, as they will be
  std::set<std::string> lost_;                  // paths in INTO that another took meanwhile
};

}  // namespace nxdkit::neff
