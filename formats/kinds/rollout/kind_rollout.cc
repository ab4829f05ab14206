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
    {"flavor", "optimum|nxdi", "kind of rollout bundle", kAsTarget},
    {"bs,batch-size", "N", "batch size of the rollout engine", kAsTarget},
    {"seq,sequence-length", "N", "sequence length of the rollout engine", kAsTarget},
    {"fused-qkv", "", "one Wqkv tensor, or q, k and v apart", kAsSource | kAsTarget},
    {"on-device-sampling", "", "whether the compiled graph samples, or gives logits", kAsTarget},
    {"optimum-version", "V", "version of optimum-neuron that is to load the bundle", kAsTarget},
    {"compiler-version", "V", "version of neuronx-cc beside it, with its +hash", kAsTarget},
    {"bundle",
     "DIR",
     "compiled bundle to take the blob and neuron_config.json from",
     kAsTarget,
     {},
     ValueKind::kFolder},
    {"instance", "NAME",
     "refuse what does not fit the memory of this instance: trn1.32xlarge, auto, a file of "
     "neuron-ls",
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
