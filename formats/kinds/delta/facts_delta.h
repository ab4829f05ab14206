// The facts of a delta, as ckpt-inspect shows them: how much of a model changed, and between which
// versions.
#pragma once

#include <string>

#include "formats/delta/delta.h"
#include "formats/kinds/survey.h"

namespace nxdkit::kinds {

struct DeltaFacts : KindState {
  delta::Coding coding = delta::Coding::kRaw;
  uint64_t parameters = 0;  // tensors
  uint64_t elements = 0;
  uint64_t changed = 0;        // of them
  uint64_t dense_bytes = 0;    // of all elements
  uint64_t payload_bytes = 0;  // of the changes
  std::string base, result;    // digests, "sha256:..."
};

// Does not need the base.
Status DescribeDelta(Survey& survey, const std::string& path, const InputHints& hints);
void AddDeltaFacts(KindFacts& facts, const Survey& survey);

}  // namespace nxdkit::kinds
