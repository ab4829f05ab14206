// The digest of a model's weights, the same for every layout, and the differences between two.
#pragma once

#include <vector>

#include "formats/artifact/bound.h"
#include "formats/artifact/run.h"
#include "formats/manifest/manifest.h"
#include "formats/ops/verify/compare.h"

namespace nxdkit::ops {

using manifest::FileDigest;
using manifest::ModelDigest;

// Reads every parameter once, from its primary place: the copies are not read (RequireSound checks
// them). Replicas, padding, names and files of the layout do not matter. kUnsupported for a
// parameter stored in two dtypes, or in one smaller than a byte; kCorrupt for one that is not
// stored. The result does not depend on run.jobs; threads for which the memory cap leaves no
// buffers are not used.
Result<ModelDigest> DigestModel(const BoundArtifact& artifact, const RunOptions& run);

// The differences of `found` from the record, in the order of names: check "missing", "extra",
// "dtype", "shape" or "digest".
std::vector<Finding> CompareModels(const ModelDigest& recorded, const ModelDigest& found);

// The same for files: "missing", "extra", "bytes" or "digest".
std::vector<Finding> CompareFiles(const std::vector<FileDigest>& recorded,
                                  const std::vector<FileDigest>& found);

}  // namespace nxdkit::ops
