// There and back: every family, names and meshes, weights and optimizer state, byte for byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "formats/dcp/folder.h"
#include "formats/dcp/layout.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/reshard/training_tag.h"
#include "tests/formats/words.h"
#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using ops::Kind;
using testing_util::ExpectError;
using testing_util::OpsWorkshop;
using testing_util::ReadBytes;
using testing_util::TagDifference;
using testing_util::TinyModel;
using testing_util::TrainingTag;

ops::OutputOptions Cut(dcp::Style style, dcp::Mesh mesh) {
  ops::OutputOptions options;
  options.Set("style", Word(style));
  options.Set("mesh", Word(mesh));
  return options;
}

struct Case {
  const char* name;
  TinyModel model;
  bool titan = true;
};

class Roundtrip : public ::testing::TestWithParam<Case> {
 protected:
  OpsWorkshop shop_;
};

TEST_P(Roundtrip, HuggingFaceComesBackByteForByte) {
  const std::string model = shop_.MakeModel("model", GetParam().model);
  int number = 0;
  for (const dcp::Style style : dcp::kStyles) {
    const bool of_titan = dcp::StyleName(style).starts_with("torchtitan");
    if (of_titan && !GetParam().titan) continue;
    for (const dcp::Mesh mesh : {dcp::Mesh{}, dcp::Mesh{3, 1}, dcp::Mesh{2, 2}, dcp::Mesh{5, 3}}) {
      const std::string name = std::to_string(number++);
      ops::ConvertRequest there =
          OpsWorkshop::Request(model, &ops::kHf, shop_ / name, &ops::kDcp, Cut(style, mesh));
      there.verify = true;
      const auto made = ops::Convert(there);
      ASSERT_TRUE(made.ok()) << made.error().ToString();
      const std::string back = shop_.Make("back" + name, shop_ / name, &ops::kDcp, &ops::kHf);
      for (const char* file : {"model.safetensors", "config.json"})
        EXPECT_EQ(ReadBytes(back + "/" + file), ReadBytes(model + "/" + file))
            << dcp::StyleName(style) << " dp " << mesh.dp << " tp " << mesh.tp;
    }
  }
}

TEST_P(Roundtrip, TheBytesDoNotDependOnThreads) {
  const std::string model = shop_.MakeModel("model", GetParam().model);
  for (const int jobs : {1, 4}) {
    ops::ConvertRequest request = OpsWorkshop::Request(
        model, &ops::kHf, shop_ / std::to_string(jobs), &ops::kDcp, Cut(dcp::Style::kHf, {2, 2}));
    request.run.jobs = jobs;
    const auto made = ops::Convert(request);
    ASSERT_TRUE(made.ok()) << made.error().ToString();
  }
  EXPECT_EQ(TagDifference(shop_ / "1", shop_ / "4"), "");
}

INSTANTIATE_TEST_SUITE_P(
    Dcp, Roundtrip,
    ::testing::Values(Case{"Llama", {.family = "llama"}},
                      Case{"LlamaOddHeads", {.family = "llama", .heads = 6, .kv_heads = 3}},
                      Case{"LlamaTied", {.family = "llama", .tied = true}},
                      Case{"Qwen2", {.family = "qwen2"}, false},
                      Case{"Qwen3", {.family = "qwen3", .tied = true}},
                      Case{"Mixtral", {.family = "mixtral", .experts = 4}, false},
                      Case{"Qwen3Moe", {.family = "qwen3_moe", .experts = 4}}),
    [](const auto& row) { return row.param.name; });

TEST(TitanNames, OfAnotherFamilyAreRefused) {
  OpsWorkshop shop;
  const std::string model = shop.MakeModel("model", {.family = "qwen2"});
  const auto made = ops::Convert(OpsWorkshop::Request(model, &ops::kHf, shop / "out", &ops::kDcp,
                                                      Cut(dcp::Style::kTitan, {})));
  ExpectError(made, Errc::kUnsupported, "TorchTitan has no qwen2 models");
}

TEST(TitanNames, OfABiasAreRefused) {
  OpsWorkshop shop;
  const std::string model = shop.MakeModel("model", {.family = "llama", .biases = true});
  const auto made = ops::Convert(OpsWorkshop::Request(model, &ops::kHf, shop / "out", &ops::kDcp,
                                                      Cut(dcp::Style::kTitan, {})));
  const auto error =
      ExpectError(made, Errc::kUnsupported, "TorchTitan's llama models have no such parameter");
  EXPECT_EQ(error->tensor(), "model.layers.0.self_attn.q_proj.bias");
}

// TorchTitan's rope rotates rows 2 i and 2 i + 1 of a head, transformers' i and i + head_dim / 2.
TEST(TitanNames, RowsOfLlamasQueriesComeInPairs) {
  const models::Model model = testing_util::ModelOf({{"model_type", "llama"},
                                                     {"hidden_size", 8},
                                                     {"intermediate_size", 8},
                                                     {"num_hidden_layers", 1},
                                                     {"num_attention_heads", 3},
                                                     {"num_key_value_heads", 3},
                                                     {"head_dim", 6},
                                                     {"vocab_size", 8}});
  const auto tensors = dcp::ModelTensors(model, dcp::Style::kTitan);
  ASSERT_TRUE(tensors.ok());
  const auto query = std::ranges::find_if(*tensors, [](const dcp::GlobalTensor& tensor) {
    return tensor.layout.name == "layers.0.attention.qkv_linear.wq.weight";
  });
  ASSERT_NE(query, tensors->end());
  for (const auto& [first, rows] : {std::pair{0, 18}, {4, 8}, {3, 7}, {17, 1}, {5, 6}}) {
    const TensorLayout cut = dcp::CutChunk(*query, {{first, 0}, {rows, 8}});
    const bool pairs = cut.shape.size() == 3;
    std::map<int64_t, int64_t> found;  // the model's row, by the chunk's
    for (const Piece& piece : cut.pieces)
      for (int64_t r = 0; r < piece.logical.extent[0]; ++r)
        found[pairs ? 2 * (piece.stored_lo[0] + r) + piece.stored_lo[1] : piece.stored_lo[0] + r] =
            piece.logical.lo[0] + r;
    ASSERT_EQ(found.size(), static_cast<size_t>(rows));
    for (const auto& [row, logical] : found) {
      const int64_t head = (first + row) / 6;
      const int64_t inside = (first + row) % 6;
      EXPECT_EQ(logical, head * 6 + inside % 2 * 3 + inside / 2) << first << " " << row;
    }
  }
}

// A small file declares the number of heads. Each cut looks only at its own heads: this is
// immediate, where looking at all of them for each row, or for each chunk, takes 10^10 steps.
TEST(TitanNames, CutsOfManyHeadsTakeTheirOwn) {
  constexpr int64_t kHeads = 50'000;
  const models::Model model = testing_util::ModelOf({{"model_type", "llama"},
                                                     {"hidden_size", 1},
                                                     {"intermediate_size", 1},
                                                     {"num_hidden_layers", 1},
                                                     {"num_attention_heads", kHeads},
                                                     {"num_key_value_heads", 1},
                                                     {"head_dim", 2},
                                                     {"vocab_size", 1}});
  const auto tensors = dcp::ModelTensors(model, dcp::Style::kTitan);
  ASSERT_TRUE(tensors.ok());
  const auto query = std::ranges::find_if(*tensors, [](const dcp::GlobalTensor& tensor) {
    return tensor.layout.name == "layers.0.attention.qkv_linear.wq.weight";
  });
  ASSERT_NE(query, tensors->end());
  // With two rows a head, the order is that of the model.
  const TensorLayout odd = dcp::CutChunk(*query, {{1, 0}, {2 * kHeads - 1, 1}});
  ASSERT_EQ(odd.pieces.size(), static_cast<size_t>(2 * kHeads - 1));
  for (int64_t row = 0; row < 2 * kHeads - 1; ++row) {
    const Piece& piece = odd.pieces[static_cast<size_t>(row)];
    ASSERT_EQ(piece.logical, (Box{{row + 1, 0}, {1, 1}}));
    ASSERT_EQ(piece.stored_lo, (Shape{row, 0}));
  }
  for (int64_t head = 0; head < kHeads; ++head) {
    const TensorLayout even = dcp::CutChunk(*query, {{2 * head, 0}, {2, 1}});
    ASSERT_EQ(even.pieces.size(), 2u) << head;
    ASSERT_EQ(even.pieces[1].logical, (Box{{2 * head + 1, 0}, {1, 1}}));
  }
}

// --- with the optimizer's state

ops::ConvertRequest WithState(const std::string& from, const Kind* from_kind, const std::string& to,
                              const Kind* to_kind, ops::OutputOptions options) {
  options.Set("training-tag", to_kind == &ops::kNxd);
  ops::ConvertRequest request = OpsWorkshop::Request(from, from_kind, to, to_kind, options);
  request.hints.optimizer = true;
  request.verify = true;
  return request;
}

struct StateCase {
  const char* name;
  TrainingTag tag;
  dcp::Style style = dcp::Style::kTitan;
};

TrainingTag Tag(const char* family, int tp, int dp, const char* groups = "norms",
                bool int_step = false, bool tied = false) {
  TrainingTag tag;
  tag.config = testing_util::SmallConfig({{"model_type", family}, {"tie_word_embeddings", tied}});
  tag.geometry.tp = tp;
  tag.dp = dp;
  tag.groups = groups;
  tag.int_step = int_step;
  tag.rounded = true;
  return tag;
}

TrainingTag MoeTag(const char* family) {
  TrainingTag tag = Tag(family, 2, 2);
  tag.config = testing_util::SmallMoeConfig(family);
  return tag;
}

TrainingTag QkvTag(nxd::QkvStyle qkv, int tp, int kv_multiplier) {
  TrainingTag tag = Tag("llama", tp, 3);
  tag.geometry.qkv = qkv;
  tag.geometry.kv_multiplier = kv_multiplier;
  return tag;
}

TrainingTag StageTag() {
  TrainingTag tag = Tag("llama", 2, 2);
  tag.geometry.pp = 2;
  return tag;
}

TrainingTag NoMastersTag() {
  TrainingTag tag = Tag("llama", 2, 2);
  tag.master_weights = false;
  tag.rounded = false;
  return tag;
}

// Norms that a module keeps in F32, and moments that an optimizer keeps in BF16.
TrainingTag MixedTag(bool masters) {
  TrainingTag tag = Tag("llama", 2, 3);
  tag.master_weights = masters;
  tag.wide = "norm";
  tag.change = [](testing_util::FileDraft& file) {
    for (auto& tensor : file.tensors)
      if (file.is_optimizer() && tensor.output.name.find("down_proj") != std::string::npos)
        tensor = testing_util::FileDraft::Rounded(tensor);
  };
  return tag;
}

class StateRoundtrip : public ::testing::TestWithParam<StateCase> {};

// All of it equals the source: weights, which are its rounded master weights, state, and carried
// objects.
TEST_P(StateRoundtrip, ATagComesBackByteForByte) {
  const TrainingTag& tag = GetParam().tag;
  ops::OutputOptions as_tag;
  as_tag.Set("tp", tag.geometry.tp);
  as_tag.Set("pp", tag.geometry.pp);
  as_tag.Set("dp", tag.dp);
  as_tag.Set("qkv", Word(tag.geometry.qkv));
  as_tag.Set("kv-multiplier", tag.geometry.kv_multiplier);
  as_tag.Set("hw", "trn1");
  for (const dcp::Mesh mesh : {dcp::Mesh{2, 2}, dcp::Mesh{3, 1}}) {
    OpsWorkshop shop;
    testing_util::WriteTrainingTag(shop / "tag", tag);
    const auto there = ops::Convert(
        WithState(shop / "tag", &ops::kNxd, shop / "dcp", &ops::kDcp, Cut(GetParam().style, mesh)));
    ASSERT_TRUE(there.ok()) << there.error().ToString();
    const auto again =
        ops::Convert(WithState(shop / "dcp", &ops::kDcp, shop / "back", &ops::kNxd, as_tag));
    ASSERT_TRUE(again.ok()) << again.error().ToString();
    EXPECT_EQ(TagDifference(shop / "tag", shop / "back"), "");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Dcp, StateRoundtrip,
    ::testing::Values(StateCase{"Llama", Tag("llama", 2, 3)},
                      StateCase{"LlamaOneGroup", Tag("llama", 1, 2, "one", true)},
                      StateCase{"Qwen2", Tag("qwen2", 2, 1, "biases"), dcp::Style::kHf},
                      StateCase{"Qwen3", Tag("qwen3", 4, 5, "norms", true)},
                      StateCase{"Qwen3Tied", Tag("qwen3", 2, 2, "norms", false, true)},
                      StateCase{"Mixtral", MoeTag("mixtral"), dcp::Style::kHf},
                      StateCase{"MixtralFused", MoeTag("mixtral"), dcp::Style::kHfFused},
                      StateCase{"Qwen3Moe", MoeTag("qwen3_moe")},
                      StateCase{"Fused", QkvTag(nxd::QkvStyle::kFused, 2, 1)},
                      StateCase{"Linear", QkvTag(nxd::QkvStyle::kLinear, 4, 1)},
                      StateCase{"Multiplied", QkvTag(nxd::QkvStyle::kLinear, 8, 2)},
                      StateCase{"MultipliedFused", QkvTag(nxd::QkvStyle::kFused, 8, 2)},
                      StateCase{"Stages", StageTag()}, StateCase{"NoMasters", NoMastersTag()},
                      StateCase{"Mixed", MixedTag(true)},
                      StateCase{"MixedNoMasters", MixedTag(false), dcp::Style::kHf}),
    [](const auto& row) { return row.param.name; });

// Three parameters of the fixture were trained, and NxD has gate and up in one tensor.
TEST(State, OfOneHalfOfAFusedTensorIsRefused) {
  OpsWorkshop shop;
  ops::OutputOptions options;
  options.Set("tp", 1);  // its MLP has 5 rows
  options.Set("dp", 2);
  ops::ConvertRequest request =
      WithState(NXDKIT_TESTDATA "/dcp/mesh2x2", &ops::kDcp, shop / "tag", &ops::kNxd, options);
  request.hints.config = NXDKIT_TESTDATA "/dcp/config.json";
  const auto error = ExpectError(ops::Convert(request), Errc::kUnsupported,
                                 "the optimizer keeps something else of each");
  EXPECT_EQ(error->tensor(), "model.layers.0.mlp.gate_up_proj.weight");
  EXPECT_EQ(error->hint(), "--no-optimizer converts only the weights");
  request.hints.optimizer = false;
  const auto weights = ops::Convert(request);
  ASSERT_TRUE(weights.ok()) << weights.error().ToString();
  EXPECT_FALSE(weights->optimizer);
}

// The bytes of an item that was not decoded are copied from checkpoint to checkpoint.
TEST(State, AndObjectsGoToAnotherMesh) {
  OpsWorkshop shop;
  ops::ConvertRequest request = WithState(NXDKIT_TESTDATA "/dcp/fsdp4", &ops::kDcp, shop / "dcp",
                                          &ops::kDcp, Cut(dcp::Style::kTitan2025, {1, 2}));
  request.hints.config = NXDKIT_TESTDATA "/dcp/config.json";
  const auto made = ops::Convert(request);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_TRUE(made->verified);
  const auto before = dcp::Open(NXDKIT_TESTDATA "/dcp/fsdp4");
  const auto after = dcp::Open(shop / "dcp");
  ASSERT_TRUE(before.ok() && after.ok());
  // TorchTitan of 2025 needs the whole schedule.
  std::set<std::string> more;
  for (const dcp::ObjectEntry& object : after->metadata.objects) more.insert(object.key);
  for (const dcp::ObjectEntry& object : before->metadata.objects) more.erase(object.key);
  // The optimizer's are under the names of that time.
  std::erase_if(more, [](const std::string& key) { return key.starts_with("optimizer."); });
  EXPECT_THAT(more, ::testing::ElementsAre("lr_scheduler._get_lr_called_within_step",
                                           "lr_scheduler._is_initial", "lr_scheduler._last_lr",
                                           "lr_scheduler._step_count", "lr_scheduler.lr_lambdas",
                                           "lr_scheduler.verbose"));
  size_t carried = 0;
  for (const dcp::ObjectEntry& object : before->metadata.objects)
    for (const dcp::ObjectEntry& other : after->metadata.objects)
      if (object.key == other.key && object.key.starts_with("dataloader.")) {
        ++carried;
        EXPECT_EQ(*dcp::ReadObject(*before, object), *dcp::ReadObject(*after, other));
      }
  EXPECT_EQ(carried, 5u);
}

}  // namespace
}  // namespace nxdkit
