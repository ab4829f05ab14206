// PRIVATE to trainer/loop. The text and the data of a run: tokenizer, chat template, prompts, and
// the reward that judges the responses.
#pragma once

#include <optional>

#include "trainer/loop/checkpoint.h"
#include "trainer/loop/setup.h"

namespace nxdkit::trainer {

// Fills all of `data` but its second scorer, and of `record` what goes into checkpoints and how
// long the run is. `continued`: what it goes on from. kCorrupt for a tokenizer with more ids than a
// model has rows.
Status OpenTextAndData(const SetupContext& setup, const RunModels& models,
                       const std::optional<FoundCheckpoint>& continued, RunData& data,
                       RunRecord& record);

// Starts the program that scores, if the reward is one.
Result<Scorer> MakeScorer(const SetupContext& setup);

}  // namespace nxdkit::trainer
