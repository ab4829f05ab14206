// Whether the compiled blob of a bundle (model.pt) is whole, as far as that shows without running
// it: a TorchScript archive, and the NEFFs in it; and which optimum-neuron loads the bundle. Facts:
// formats/rollout/FORMAT.md, formats/neff/FORMAT.md.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/ops/verify/verify.h"
#include "formats/rollout/bundle.h"
#include "formats/rollout/installed.h"

namespace nxdkit::ops {

enum class BlobDepth : uint8_t {
  kForm,     // the directory of the archive and the names of its records; reads next to nothing
  kContents  // also the checksum of every record, and header and hash of every NEFF; reads it all
};

struct BlobReport {
  std::vector<Finding> findings;  // check "blob"; empty: whole
  size_t neffs = 0;               // with kContents: how many were found
};

// What is wrong with one file. Reads in pieces, whatever the size. Errors are those of the system,
// and kInterrupted.
Result<BlobReport> CheckBlob(const std::string& path, BlobDepth depth,
                             const std::function<Status()>& poll);

// A blob without any: how the vendor's classes lie in an archive is not published, so this proves
// nothing.
std::string NoNeffText(const std::string& path);

// All blobs of a bundle, with their contents: findings, or what is good about them. Nothing when it
// has none.
Status CheckBlobs(const rollout::Bundle& bundle, const std::function<Status()>& poll,
                  VerifyReport& report);
// The same for who is about to use them: kCorrupt naming the first finding.
Status RequireBlobs(const rollout::Bundle& bundle, const std::function<Status()>& poll);

// The findings as lines, in the form in which the compile cache asks (neff::BlobCheck).
Result<std::vector<std::string>> BlobFaults(const std::string& path,
                                            const std::function<Status()>& poll);

// Adds a check that names the versions, and a warning for each installation that has others. A
// bundle without versions is a finding: optimum-neuron demands them.
void NameLoaders(const rollout::Bundle& bundle,
                 const std::vector<rollout::Installation>& installations, VerifyReport& report);

}  // namespace nxdkit::ops
