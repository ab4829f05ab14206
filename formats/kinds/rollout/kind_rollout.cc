#include "formats/kinds/rollout/decide_rollout.h"
#include "formats/kinds/rollout/facts_rollout.h"
#include "formats/kinds/rollout/read_rollout.h"
#include "formats/kinds/rollout/rollout_state.h"
#include "formats/kinds/table.h"

namespace nxdkit::kinds {
namespace {

std::optional<int> RolloutTp(const BoundArtifact& bound) {
  return static_cast<int>(RolloutGeometryOf(bound)->tp);
}

std::optional<models::Placement> RolloutHeads(const BoundArtifact& bound) {
  const models::ModelConfig& config = bound.model->config;
  return models::RolloutPlacement(config.heads, config.kv_heads, RolloutGeometryOf(bound)->tp)
      .placement;
}

constexpr OptionRow kRows[] = {
    {"tp,tensor-parallel-size", "N", "tensor parallel size", kAsInput | kAsTarget},
    {"flavor", "optimum|nxdi", "rollout bundle of optimum-neuron or of NxD Inference", kAsTarget},
    {"bs,batch-size", "N", "batch size of the rollout engine", kAsTarget},
    {"seq,sequence-length", "N", "sequence length of the rollout engine", kAsTarget},
    {"fused-qkv", "", "store one Wqkv tensor per layer", kAsSource | kAsTarget},
    {"on-device-sampling", "", "sample in the compiled graph instead of giving logits", kAsTarget},
    {"optimum-version", "V", "optimum-neuron version that will load the bundle", kAsTarget},
    {"compiler-version", "V", "neuronx-cc version that will load the bundle, with its +hash",
     kAsTarget},
    {"bundle",
     "DIR",
     "compiled bundle with the blob and neuron_config.json to use",
     kAsTarget,
     {},
     ValueKind::kFolder},
    {"instance", "NAME",
     "instance whose core memory must suffice: trn1.32xlarge, auto or a neuron-ls file",
     kAsTarget}};

}  // namespace

constinit const Kind kRollout = {
    .name = "rollout",
    .called = "a rollout bundle",
    .precedence = 1,
    .is_folder = rollout::LooksLikeBundle,
    .open = OpenRollout,
    .bind = BindRollout,
    .options = kRows,
    .tensor_parallel = RolloutTp,
    .heads = RolloutHeads,
    .check = CheckRollout,
    .name_checks = NameRolloutChecks,
    .describe = DescribeRollout,
    .describe_layout = DescribeRolloutLayout,
    .add_facts = AddRolloutFacts,
    .decide = DecideRollout,
    .refreshes = true,
};

}  // namespace nxdkit::kinds
