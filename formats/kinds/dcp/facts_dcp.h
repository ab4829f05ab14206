// The facts of a torch distributed checkpoint, as ckpt-inspect shows them.
#pragma once

#include <string>
#include <vector>

#include "formats/kinds/survey.h"

namespace nxdkit::ops {

struct DcpFacts : KindState {
  uint64_t tensors = 0;  // keys, each of one or more chunks
  uint64_t chunks = 0;
  std::vector<std::string> objects;  // keys of what is no tensor
};

const DcpFacts* DcpFactsOf(const Survey& survey);  // nullptr where it is no such checkpoint

Status DescribeDcp(Survey& survey, const std::string& path, const InputHints& hints);
void AddDcpFacts(KindFacts& facts, const Survey& survey);

}  // namespace nxdkit::ops
