// PRIVATE to trainer/loop. The text and the data of a run: tokenizer, chat template, prompts, and
// the reward that judges the responses.
#pragma once

#include <optional>

#include "trainer/loop/checkpoint.h"
#include "trainer/loop/setup.h"

namespace nxdkit::trainer {

// Fills `data` except for its second scorer, and those parts of `record` that go into checkpoints
// or give the length of the run. `continued`: the checkpoint from which the run continues. kCorrupt
// for a tokenizer with more ids than a model has rows.
Status OpenTextAndData(const SetupContext& setup, const RunModels& models,
                       const std::optional<FoundCheckpoint>& continued, RunData& data,
                       RunRecord& record);

// Starts the scoring program, if the reward is one.
Result<Scorer> MakeScorer(const SetupContext& setup);

}  // namespace nxdkit::trainer
