// PRIVATE: the optimizer of stage 0, which is in the model's file: torch's own, by numbers, and
// beside 16-bit weights the master weights, whole.
#pragma once

#include "formats/torch/archive.h"
#include "formats/zero/open.h"
#include "formats/zero/read_files.h"
#include "formats/zero/tag_entries.h"

namespace nxdkit::zero {

// kUnsupported where sizes and values do not tell which parameter a number is.
Status AddPlainOptimizer(const torch::Archive& archive, const ModelFile& model,
                         const std::string& file, TagEntries& entries, Facts& facts);

}  // namespace nxdkit::zero
