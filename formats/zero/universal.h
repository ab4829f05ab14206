// PRIVATE: a tag converted by ds_to_universal: a folder for each parameter, with a file for its
// master weights and one for each kind of optimizer state.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "formats/zero/tag_state.h"

namespace nxdkit::zero {

struct UniversalFiles {
  // By parameter: the files of its folder, without ".pt", including fp32.
  std::map<std::string, std::set<std::string>> params;
  bool has_options = false;  // zero/optimizer_state.pt

  static std::string FileName(const std::string& param, const std::string& what);
  std::vector<std::string> FileNames() const;  // relative to the tag
};
Result<UniversalFiles> ListUniversal(const std::string& tag);

// Adds the module's weights where the model's file has them, otherwise the master weights. kCorrupt
// for a trained parameter without a folder.
Status AddUniversalWeights(TagState& tag, const UniversalFiles& files);
Status AddUniversalState(TagState& tag, const UniversalFiles& files);

}  // namespace nxdkit::zero
