// A data set as the source of training prompts.
#pragma once

#include <memory>

#include "trainer/data/dataset.h"
#include "trainer/data/sampler.h"
#include "trainer/loop/run_inputs.h"

namespace nxdkit::trainer {

Prompt PromptOf(const Dataset& dataset, size_t row, const Tokenizer& tokenizer);

// Gives `count` prompts per call, always the same number. Seek compares the position with the
// present data set: errors as BatchSampler::Resume.
Result<std::unique_ptr<PromptFeed>> MakeDatasetFeed(std::shared_ptr<const Dataset> dataset,
                                                    std::shared_ptr<const Tokenizer> tokenizer,
                                                    int64_t seed, bool shuffle, int64_t count);

}  // namespace nxdkit::trainer
