// The facts of a rollout bundle, as ckpt-inspect shows them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/kinds/survey.h"
#include "formats/models/gqa.h"
#include "formats/rollout/bundle.h"

namespace nxdkit::kinds {

struct RolloutFacts : KindState {
  std::optional<rollout::NeuronConfig> config;
  int64_t first_rank = 0;
  int64_t ranks = 0;  // with shards here
  std::vector<Item> blobs;
  std::optional<rollout::WeightsVersion> weights;  // of a bundle that was refreshed
  std::optional<models::RolloutHeads> heads;       // if the configuration is known
};

Status DescribeRollout(Survey& survey, const std::string& path, const InputHints& hints);
void DescribeRolloutLayout(Survey& survey, const BoundArtifact& bound, const InputHints& hints);
void AddRolloutFacts(KindFacts& facts, const Survey& survey);

}  // namespace nxdkit::kinds
