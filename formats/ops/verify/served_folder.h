// PRIVATE to formats/ops/verify: the tensors of a Hugging Face folder as an engine's loader finds
// them, whatever is wrong with them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "formats/artifact/artifact.h"
#include "formats/artifact/finding.h"

namespace nxdkit::ops {

struct ServedFolder {
  Artifact artifact;  // with the files that the loader reads: the index's, or all
  std::map<std::string, const StoredTensor*> tensors;  // of these files, by name
  // Files that are missing, or not in the index; tensors that are there twice.
  std::vector<Finding> findings;

  const StoredTensor* Find(const std::string& name) const {
    const auto it = tensors.find(name);
    return it == tensors.end() ? nullptr : it->second;
  }
};

// kNotFound for a folder without *.safetensors or without a configuration.
Result<ServedFolder> OpenServedFolder(const std::string& path, const InputHints& hints);

}  // namespace nxdkit::ops
