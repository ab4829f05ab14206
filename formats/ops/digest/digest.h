// The digest of a model's weights, the same for every layout; and the manifest of an artifact,
// made and checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/artifact/artifact.h"
#include "formats/artifact/run.h"
#include "formats/manifest/manifest.h"
#include "formats/ops/verify/compare.h"

namespace nxdkit::ops {

using manifest::FileDigest;
using manifest::Manifest;
using manifest::ModelDigest;

// Reads every parameter once, from its primary place: what the copies hold does not count
// (RequireSound asks them). Replicas, padding, names and files of the layout leave no trace.
// kUnsupported for a parameter stored in two dtypes, or in one smaller than a byte; kCorrupt for
// one that is stored nowhere. The same at any run.jobs; threads that the memory cap has no buffers
// for are not used.
Result<ModelDigest> DigestModel(const BoundArtifact& artifact, const RunOptions& run);

// The files of an artifact: the file that it is, or all regular files below its folder (of an NxD
// set: the tag's), but those in `without` (by path, as they are or will be on the disk) and all
// whose name, or folder's name, begins with a dot. Links count as what they lead to; kUnsupported
// for one that leads to a folder that it is in. A bundle's weights are those of the version that
// the artifact has open, also when the bundle was refreshed since. SHA-256 of each, on run.jobs
// threads; sorted by path.
Result<std::vector<FileDigest>> DigestFiles(const Artifact& artifact,
                                            const std::vector<std::string>& without,
                                            const RunOptions& run);

// What `found` has other than was recorded, in the order of names: check "missing", "extra",
// "dtype", "shape" or "digest".
std::vector<Finding> CompareModels(const ModelDigest& recorded, const ModelDigest& found);

// The same for files: "missing", "extra", "bytes" or "digest".
std::vector<Finding> CompareFiles(const std::vector<FileDigest>& recorded,
                                  const std::vector<FileDigest>& found);

struct DigestRequest {
  std::string path;
  std::optional<Kind> kind;  // nullopt: recognised
  InputHints hints;
  bool files = true;  // a manifest records files, and they are checked
  // At most one of the two.
  std::optional<std::string> write_manifest;
  std::optional<std::string> check_manifest;
  std::optional<std::string> sign_key;    // with write_manifest: writes <manifest>.sig
  std::optional<std::string> public_key;  // with check_manifest: reads it
  bool force = false;                     // replace a manifest and its signature
  RunOptions run;
};

struct DigestReport {
  Kind kind = Kind::kHf;
  std::string model_type;
  ModelDigest model;
  std::vector<FileDigest> files;  // when a manifest was written or checked with files
  std::vector<std::string> checks;
  std::vector<Finding> findings;
  std::vector<std::string> left_out;  // tensors that are no parameters
  std::vector<std::string> warnings;
};

// Checks the copies, digests, and writes or checks the manifest. A signature that is wrong is a
// finding, and nothing else is looked at then.
Result<DigestReport> Digest(const DigestRequest& request);

inline constexpr char kSignatureSuffix[] = ".sig";

}  // namespace nxdkit::ops
