// The facts of a Hugging Face folder, or of one file of safetensors, as ckpt-inspect shows them.
#pragma once

#include <string>
#include <vector>

#include "formats/kinds/survey.h"

namespace nxdkit::ops {

// One of several in a folder.
struct WeightSet {
  std::string file;  // or its index; of shards without one, the first
  bool read = false;
};

struct HfFacts : KindState {
  std::vector<WeightSet> sets;  // of a folder that has several
};

const HfFacts* HfFactsOf(const Survey& survey);  // nullptr: there are none

Status DescribeHf(Survey& survey, const std::string& path, const InputHints& hints);
void AddHfFacts(KindFacts& facts, const Survey& survey);

}  // namespace nxdkit::ops
