// The facts of a torch distributed checkpoint, as ckpt-inspect shows them.
#pragma once

#include <string>
#include <vector>

#include "formats/kinds/survey.h"

namespace nxdkit::kinds {

struct DcpFacts : KindState {
  uint64_t tensors = 0;  // keys, each of one or more chunks
  uint64_t chunks = 0;
  std::vector<std::string> objects;  // keys of entries that are not tensors
};

Status DescribeDcp(Survey& survey, const std::string& path, const InputHints& hints);
void AddDcpFacts(KindFacts& facts, const Survey& survey);

}  // namespace nxdkit::kinds
