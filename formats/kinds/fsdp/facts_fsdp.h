// The facts of an FSDP run's rank files, as ckpt-inspect shows them.
#pragma once

#include <memory>

#include "formats/fsdp/open.h"
#include "formats/kinds/survey.h"

namespace nxdkit::kinds {

struct FsdpFacts : KindState {
  explicit FsdpFacts(fsdp::Facts found) : facts(std::move(found)) {}
  fsdp::Facts facts;
};

Status DescribeFsdp(Survey& survey, const std::string& path, const InputHints& hints);
void AddFsdpFacts(KindFacts& facts, const Survey& survey);

}  // namespace nxdkit::kinds
