// The digest of an artifact and its files, recorded in a manifest and checked against one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/ops/digest/digest.h"

namespace nxdkit::ops {

struct DigestRequest {
  std::string path;
  const Kind* kind = nullptr;  // null: recognised
  InputHints hints;
  bool files = true;  // record the files in a manifest, or check them
  // At most one of the two.
  std::optional<std::string> write_manifest;
  std::optional<std::string> check_manifest;
  std::optional<std::string> sign_key;    // with write_manifest: writes <manifest>.sig
  std::optional<std::string> public_key;  // with check_manifest: reads it
  bool force = false;                     // replace a manifest and its signature
  RunOptions run;
};

struct DigestReport : Said {
  const Kind* kind = nullptr;
  std::string model_type;
  ModelDigest model;
  std::vector<FileDigest> files;  // if a manifest was written or checked with files
  std::vector<std::string> checks;
  std::vector<Finding> findings;
  artifact::DifferingParams differing;  // from the recorded ones
  std::vector<std::string> left_out;    // tensors that are not parameters
};

// Checks the copies, digests, and writes or checks the manifest. A wrong signature is a finding,
// and nothing else is checked then.
Result<DigestReport> Digest(const DigestRequest& request);

inline constexpr char kSignatureSuffix[] = ".sig";

}  // namespace nxdkit::ops
