// PRIVATE: a tag while it is read: first the weights, then the optimizer's state.
#pragma once

#include <string>
#include <vector>

#include "formats/zero/open.h"
#include "formats/zero/read_files.h"
#include "formats/zero/tag_entries.h"

namespace nxdkit::zero {

struct TagState {
  const TagFiles& files;
  OpenOptions options;
  dcp::Folder& out;
  TagEntries& entries;
  Facts& facts;
  std::vector<ModelFile> models = {};  // by rank; only one below stage 3

  const ModelFile& model() const { return models.front(); }
  std::string ModelPath(int rank = 0) const;
  bool IsAlias(const std::string& name) const;  // a second name of a parameter
};

}  // namespace nxdkit::zero
