// The facts of a DeepSpeed checkpoint, as ckpt-inspect shows them.
#pragma once

#include <memory>

#include "formats/kinds/survey.h"
#include "formats/zero/open.h"

namespace nxdkit::kinds {

struct ZeroFacts : KindState {
  explicit ZeroFacts(zero::Facts found) : facts(std::move(found)) {}
  zero::Facts facts;
};

Status DescribeZero(Survey& survey, const std::string& path, const InputHints& hints);
void AddZeroFacts(KindFacts& facts, const Survey& survey);

}  // namespace nxdkit::kinds
