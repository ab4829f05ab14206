// Random models through random layouts: Hugging Face to an NxD set to a rollout bundle and back
// gives the same bytes; every stored element has one meaning, and every head its own key head.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <rapidcheck/gtest.h>  // uses what gtest.h declares

#include <numeric>

#include "formats/models/sample_model.h"
#include "tests/formats/memory_sink.h"
#include "tests/formats/model_layouts.h"

namespace nxdkit {
namespace {

using models::Role;

struct Case {
  nlohmann::json config;
  nxd::Geometry nxd;
  rollout::Geometry rollout;
  bool tied_head = false;  // the NxD set stores lm_head of a tied model, too
  Dtype dtype = Dtype::kBF16;
};

void showValue(const Case& c, std::ostream& out) {
  out << c.config.dump()
      << fmt::format(
             "\nnxd: tp {} pp {} vpp {} ep {} m {} qkv {} trn{} {} gate_up {} tied_head {} {}",
             c.nxd.tp, c.nxd.pp, c.nxd.vpp, c.nxd.ep, c.nxd.kv_multiplier,
             nxd::QkvStyleName(c.nxd.qkv), c.nxd.hardware == models::Hardware::kTrn1 ? 1 : 2,
             nxd::NameStyleName(c.nxd.names), c.nxd.fused_gate_up, c.tied_head, Name(c.dtype))
      << fmt::format("\nrollout: {} tp {} fused {} vocab {} transposed {} {} {} expert ranks {}",
                     rollout::FlavorName(c.rollout.flavor), c.rollout.tp, c.rollout.fused_qkv,
                     c.rollout.vocab_parallel, c.rollout.transposed_qkv,
                     c.rollout.transposed_output, c.rollout.transposed_mlp, c.rollout.expert_ranks);
}

int Number(int least, int most) { return *rc::gen::inRange(least, most + 1); }
bool Coin() { return *rc::gen::arbitrary<bool>(); }

int DivisorOf(int64_t number) {
  std::vector<int> divisors;
  for (int i = 1; i <= number; ++i)
    if (number % i == 0) divisors.push_back(i);
  return *rc::gen::elementOf(divisors);
}

// Experts, and everything cut evenly by both sides: such models are not padded.
void AddExperts(Case& c) {
  const bool mixtral = Coin();
  c.config["model_type"] = mixtral ? "mixtral" : "qwen3_moe";
  const int64_t unit = std::lcm(c.nxd.tp, c.rollout.tp);
  c.nxd.ep = Number(1, 3);
  const int experts = c.nxd.ep * Number(1, 3);
  c.config["num_local_experts"] = experts;
  c.config["num_experts"] = experts;
  c.config["hidden_size"] = c.rollout.tp * Number(1, 2);
  c.config["vocab_size"] = unit * Number(1, 2);
  c.config["intermediate_size"] = unit * Number(1, 2);
  c.config["moe_intermediate_size"] = unit * Number(1, 2);
  c.rollout.transposed_mlp = false;
  if (mixtral || c.rollout.flavor == rollout::Flavor::kNxdi)
    c.config["tie_word_embeddings"] = false;
  if (c.rollout.flavor == rollout::Flavor::kOptimum) {
    c.config["mlp_only_layers"] = std::vector<int>(Coin() ? 1 : 0, 0);
    c.config["decoder_sparse_step"] = Number(1, 2);
  }
  if (Coin() && c.nxd.names == nxd::NameStyle::kHf) c.nxd.names = nxd::NameStyle::kNxdt;
}

// What NxD can hold: m divides the group of a key head, tp divides its copies.
Case AnyCase() {
  Case c;
  const int kv = Number(1, 5);
  const int group = Number(1, 6);
  c.nxd.kv_multiplier = DivisorOf(group);
  c.nxd.tp = DivisorOf(int64_t{kv} * c.nxd.kv_multiplier);
  c.nxd.pp = Number(1, 3);
  c.nxd.vpp = Number(1, 2);
  c.nxd.hardware = Coin() ? models::Hardware::kTrn1 : models::Hardware::kTrn2;
  c.nxd.fused_gate_up = Coin();
  std::vector<nxd::QkvStyle> styles = {nxd::QkvStyle::kLinear, nxd::QkvStyle::kFused};
  if (c.nxd.kv_multiplier == 1) {
    styles.push_back(nxd::QkvStyle::kSeparate);
    if (group == 1) styles.push_back(nxd::QkvStyle::kCoalesced);
    if (Coin()) c.nxd.names = nxd::NameStyle::kMegatron;
  }
  c.nxd.qkv = *rc::gen::elementOf(styles);
  c.rollout.tp = Number(1, 9);
  c.rollout.fused_qkv = Coin();
  c.rollout.vocab_parallel = Coin();
  c.rollout.transposed_qkv = c.rollout.fused_qkv && Coin();
  c.rollout.transposed_output = Coin();
  c.rollout.transposed_mlp = Coin();
  c.config = {
      {"model_type", *rc::gen::element<std::string>("llama", "qwen2", "qwen3")},
      {"hidden_size", Number(1, 9)},
      {"intermediate_size", c.nxd.tp * Number(1, 5)},
      {"num_hidden_layers", c.nxd.pp * c.nxd.vpp + Number(0, 3)},
      {"num_attention_heads", kv * group},
      {"num_key_value_heads", kv},
      {"head_dim", Number(1, 4)},
      {"vocab_size", c.nxd.tp * Number(1, 5)},
      {"tie_word_embeddings", Coin()},
      {"attention_bias", Coin()},
      {"mlp_bias", Coin()},
  };
  c.rollout.flavor = Coin() ? rollout::Flavor::kNxdi : rollout::Flavor::kOptimum;
  c.rollout.expert_ranks = Coin();
  if (Coin()) AddExperts(c);
  c.tied_head = Coin();
  c.dtype = Coin() ? Dtype::kBF16 : Dtype::kF32;
  return c;
}

// How often the layout stores each element of a parameter; fails when not all the same.
int64_t Copies(const Layout& layout, const std::vector<LogicalTensor>& params, uint32_t param) {
  int64_t stored = 0;
  for (const TensorLayout& tensor : layout.tensors)
    for (const Piece& piece : tensor.pieces)
      if (piece.param == param) stored += piece.logical.Volume();
  const int64_t elements = WholeBox(params[param].shape).Volume();
  RC_ASSERT(stored % elements == 0);
  return stored / elements;
}

bool IsSharded(const models::Param& param) {
  switch (param.role) {
    case Role::kOutput:
    case Role::kDown:
      return param.shape.size() == 2;
    case Role::kFinalNorm:
    case Role::kQueryNorm:
    case Role::kKeyNorm:
    case Role::kRouter:
    case Role::kReplicated:
      return false;
    default:
      return true;
  }
}

void CheckCopies(const Case& c, const models::Model& model, const Layout& nxd_layout,
                 const Layout& rollout_layout) {
  const std::vector<LogicalTensor> params = model.Logical();
  const models::RolloutHeads heads =
      models::RolloutPlacement(model.config.heads, model.config.kv_heads, c.rollout.tp);
  int64_t kv_slots = 0;  // that are no padding
  for (const models::RankHeads& rank : heads.placement)
    for (int64_t head : rank.kv) kv_slots += head != models::kZeroHead;
  for (uint32_t i = 0; i < params.size(); ++i) {
    const models::Param& param = model.params[i];
    const bool key = param.role == Role::kKey || param.role == Role::kValue;
    const int64_t in_stage = key ? c.nxd.kv_multiplier : IsSharded(param) ? 1 : c.nxd.tp;
    const int64_t spread = param.expert >= 0 ? 1 : c.nxd.ep;  // the rest is in every ep file
    const int64_t in_nxd = in_stage * spread;
    const int64_t in_rollout = key                ? kv_slots / model.config.kv_heads
                               : IsSharded(param) ? 1
                                                  : c.rollout.tp;
    const bool twice = param.role == Role::kEmbedding && model.config.tied;
    RC_ASSERT(Copies(nxd_layout, params, i) == in_nxd + (twice && c.tied_head ? spread : 0));
    RC_ASSERT(Copies(rollout_layout, params, i) == in_rollout + (twice ? 1 : 0));
  }
}

void CheckHeads(const Case& c, const models::ModelConfig& config) {
  const auto training = nxd::HeadPlacement(config, c.nxd);
  RC_ASSERT(training.ok());
  RC_ASSERT(models::CheckPlacement(*training, config.heads, config.kv_heads).ok());
  const auto rollout = models::RolloutPlacement(config.heads, config.kv_heads, c.rollout.tp);
  RC_ASSERT(models::CheckPlacement(rollout.placement, config.heads, config.kv_heads).ok());
}

RC_GTEST_PROP(RandomModels, ReturnFromNxdAndRolloutWithTheSameBytes, ()) {
  const Case c = *rc::gen::exec(AnyCase);
  RC_TAG(std::string(nxd::QkvStyleName(c.nxd.qkv)));
  const models::Model model = testing_util::ModelOf(c.config);
  const std::vector<LogicalTensor> params = model.Logical();
  const Layout nxd_layout = testing_util::NxdLayout(model, c.nxd, c.tied_head);
  const Layout rollout_layout = testing_util::RolloutLayout(model, c.rollout);
  for (const Layout* layout : {&nxd_layout, &rollout_layout}) {
    const Status whole = CheckLayout(params, *layout);
    RC_ASSERT(whole.ok());
    RC_ASSERT(PrimaryPlaces::Find(params, *layout).ok());
  }
  CheckHeads(c, model.config);
  CheckCopies(c, model, nxd_layout, rollout_layout);

  const BoundLayout hf = models::SampleCheckpoint(model, 7, c.dtype);
  const auto set = testing_util::RunPlan(params, hf, nxd_layout, c.dtype, 1 << 20, 1);
  const auto bundle =
      testing_util::RunPlan(params, set.Bind(nxd_layout), rollout_layout, c.dtype, 1 << 20, 1);
  const auto back =
      testing_util::RunPlan(params, bundle.Bind(rollout_layout), hf.layout, c.dtype, 1 << 20, 1);
  RC_ASSERT(!::testing::Test::HasFailure());
  for (size_t i = 0; i < params.size(); ++i) {
    std::vector<std::byte> original(back.bytes(i).size());
    RC_ASSERT(hf.stored[i].storage->ReadAt(0, original).ok());
    RC_ASSERT(back.bytes(i) == original);
  }
}

// Padding is zero bytes, rank tensors hold their rank.
RC_GTEST_PROP(RandomModels, FillsHoldWhatTheySay, ()) {
  const Case c = *rc::gen::exec(AnyCase);
  const models::Model model = testing_util::ModelOf(c.config);
  const std::vector<LogicalTensor> params = model.Logical();
  const Layout layout = testing_util::RolloutLayout(model, c.rollout);
  const auto bundle = testing_util::RunPlan(params, models::SampleCheckpoint(model, 7, c.dtype),
                                            layout, c.dtype, 1 << 20, 1);
  const auto bytes_of = [&](size_t t) { return bundle.bytes(t); };
  for (size_t t = 0; t < layout.tensors.size(); ++t) {
    const TensorLayout& tensor = layout.tensors[t];
    const int64_t size = ElementBytes(bundle.outputs()[t].dtype);
    const Shape strides = RowMajorStrides(tensor.shape);
    for (const Fill& fill : tensor.fills) {
      const Shape last = [&] {
        Shape at = fill.stored.lo;
        for (size_t d = 0; d < at.size(); ++d) at[d] += fill.stored.extent[d] - 1;
        return at;
      }();
      for (const Shape& at : {fill.stored.lo, last}) {
        const int64_t element =
            std::inner_product(at.begin(), at.end(), strides.begin(), int64_t{0});
        int64_t value = 0;
        std::memcpy(&value, bytes_of(t).data() + element * size, static_cast<size_t>(size));
        RC_ASSERT(value == (tensor.dtype ? layout.files[tensor.file].tp_rank : 0));
      }
    }
  }
}

}  // namespace
}  // namespace nxdkit
