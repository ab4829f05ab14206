// PRIVATE: the kernels of one vLLM Neuron tree brought into another, with the binaries that they
// name. Facts: FORMAT.md beside this file, read from source, not run.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "formats/compile_cache/merge.h"
#include "formats/compile_cache/publish.h"

namespace nxdkit::neff {

// Binaries go to INTO/nki/binaries/, and the paths in what is copied are those: so a tree that was
// merged together has all that it names. The engine's own promotion leaves out what is in nki/ when
// there is a nki/ already.
class KernelMover {
 public:
  // The roots are absolute. Nothing is written in a dry run.
  KernelMover(std::string from, std::string into, const MergeOptions& options, Batch& batch)
      : from_(std::move(from)), into_(std::move(into)), options_(options), batch_(batch) {}

  Status MergeAll(MergeReport& report);

  // The graph of an entry with the paths of binaries as they are in INTO, which are brought there;
  // nullopt when none changes. Binaries that are nowhere go to `missing`.
  Result<std::optional<std::string>> MoveGraph(const std::string& graph,
                                               std::vector<std::string>& missing);

 private:
  Status MergeOne(const std::string& name, MergeReport& report);
  // The reason is "same", "differs" or "damaged": of INTO's file `found`, beside ours.
  Result<MergeItem> Compare(const std::string& name, const std::string& found,
                            const std::string& ours, const std::string& binary);
  // Where the binary is in INTO; "" when it is nowhere.
  Result<std::string> Bring(const std::string& binary, const std::string& copy);
  Result<std::string> FreeName(const std::string& source, const std::string& wanted,
                               bool may_differ);
  Result<std::string> DigestAt(const std::string& path);  // "sha256:<hex>"; "": no file
  Status CopyAside(const std::string& source, const std::string& target);

  std::string from_;
  std::string into_;
  const MergeOptions& options_;
  Batch& batch_;
  std::map<std::string, std::string> brought_;  // from the path that is named, to that in INTO
  std::map<std::string, std::string> digests_;  // by path; of INTO's, as they will be
};

}  // namespace nxdkit::neff
