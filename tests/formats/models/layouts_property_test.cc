// Random models through random layouts: Hugging Face to an NxD set to a rollout bundle and back
// gives the same bytes; every stored element has one meaning, and every head its own key head.
#include <gtest/gtest.h>

#include <numeric>

#include "formats/models/sample_model.h"
#include "tests/formats/memory_sink.h"
#include "tests/formats/random_case.h"

namespace nxdkit {
namespace {

using models::Role;
using testing_util::AnyCase;
using testing_util::AnyTrainingCase;
using Case = testing_util::RandomCase;

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
  int64_t kv_slots = 0;  // not padding
  for (const models::RankHeads& rank : heads.placement)
    for (int64_t head : rank.kv) kv_slots += head != models::kZeroHead;
  for (uint32_t i = 0; i < params.size(); ++i) {
    const models::Param& param = model.params[i];
    const bool key = param.role == Role::kKey || param.role == Role::kValue;
    const int64_t in_stage = key ? c.nxd.kv_multiplier : IsSharded(param) ? 1 : c.nxd.tp;
    const int64_t spread = param.expert >= 0 ? 1 : c.nxd.ep;  // others are in every ep file
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

RC_GTEST_PROP(RandomModels, OfTrainingOnlyReturnWithTheSameBytes, ()) {
  const Case c = *rc::gen::exec(AnyTrainingCase);
  const models::Model model = testing_util::ModelOf(c.config);
  const std::vector<LogicalTensor> params = model.Logical();
  const Layout layout = testing_util::NxdLayout(model, c.nxd, c.tied_head);
  RC_ASSERT(CheckLayout(params, layout).ok());
  const BoundLayout hf = models::SampleCheckpoint(model, 7, c.dtype);
  const auto set = testing_util::RunPlan(params, hf, layout, c.dtype, 1 << 20, 1);
  const auto back = testing_util::RunPlan(params, set.Bind(layout), hf.layout, c.dtype, 1 << 20, 1);
  RC_ASSERT(!::testing::Test::HasFailure());
  for (size_t i = 0; i < params.size(); ++i) {
    std::vector<std::byte> original(back.bytes(i).size());
    RC_ASSERT(hf.stored[i].storage->ReadAt(0, original).ok());
    RC_ASSERT(back.bytes(i) == original);
  }
  const auto bundle = rollout::RankTensors(model, rollout::Geometry(), 0);
  RC_ASSERT(!bundle.ok());
  RC_ASSERT(bundle.error().code() == Errc::kUnsupported);
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
