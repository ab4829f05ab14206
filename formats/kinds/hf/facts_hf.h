// The facts of a Hugging Face folder, or of one file of safetensors, as ckpt-inspect shows them.
#pragma once

#include <string>
#include <vector>

#include "formats/kinds/survey.h"

namespace nxdkit::kinds {

// One of several in a folder.
struct WeightSet {
  std::string file;  // or its index; the first of shards without one
  bool read = false;
};

struct HfFacts : KindState {
  std::vector<WeightSet> sets;  // if the folder has several
};

Status DescribeHf(Survey& survey, const std::string& path, const InputHints& hints);
void AddHfFacts(KindFacts& facts, const Survey& survey);

}  // namespace nxdkit::kinds
