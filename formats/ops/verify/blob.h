// Checks the compiled blob of a bundle (model.pt) as far as is possible without running it: a
// TorchScript archive, and the NEFFs in it; and which optimum-neuron loads the bundle. Facts:
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
  kForm,     // the archive's directory and the names of its records; reads next to nothing
  kContents  // also each record's checksum, each NEFF's header and hash; reads everything
};

struct BlobReport {
  std::vector<Finding> findings;  // check "blob"; empty if intact
  size_t neffs = 0;               // with kContents: the number found
};

// Checks one file. Reads in pieces, whatever the size. Returns only errors of the system, and
// kInterrupted.
Result<BlobReport> CheckBlob(const std::string& path, BlobDepth depth,
                             const std::function<Status()>& poll);

// For a blob without any: the form of the vendor's classes in an archive is not published, so this
// proves nothing.
std::string NoNeffText(const std::string& path);

// Checks all blobs of a bundle, with their contents: adds findings, or a line for each check that
// passed. Nothing if it has none.
Status CheckBlobs(const rollout::Bundle& bundle, const std::function<Status()>& poll,
                  VerifyReport& report);
// The same for callers about to use them: kCorrupt naming the first finding.
Status RequireBlobs(const rollout::Bundle& bundle, const std::function<Status()>& poll);

// The findings as lines, in the form that the compile cache expects (neff::BlobCheck).
Result<std::vector<std::string>> BlobFaults(const std::string& path,
                                            const std::function<Status()>& poll);

// Adds a check with the versions, and a warning for each installation that has others. A bundle
// without versions is a finding: optimum-neuron requires them.
void NameLoaders(const rollout::Bundle& bundle,
                 const std::vector<rollout::Installation>& installations, VerifyReport& report);

}  // namespace nxdkit::ops
