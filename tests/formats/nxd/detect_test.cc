// The facts that names, shapes and contents of a set prove, and the errors for contradicting
// claims.
#include "formats/nxd/detect.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/nxd/detect_hardware.h"
#include "tests/formats/nxd/geometries.h"
#include "tests/formats/nxd/memory_set.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::nxd {
namespace {

using models::Hardware;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::ExpectError;
using testing_util::MemorySet;
using testing_util::ModelOf;
using testing_util::SmallConfig;

Claims Says(std::optional<Hardware> hardware) {
  Claims claims;
  claims.origin = "the options";
  claims.hardware = hardware;
  return claims;
}

void ExpectSame(const Geometry& found, const Geometry& expected) {
  EXPECT_EQ(found.tp, expected.tp);
  EXPECT_EQ(found.pp, expected.pp);
  EXPECT_EQ(found.vpp, expected.vpp);
  EXPECT_EQ(found.ep, expected.ep);
  EXPECT_EQ(found.kv_multiplier, expected.kv_multiplier);
  EXPECT_EQ(QkvStyleName(found.qkv), QkvStyleName(expected.qkv));
  EXPECT_EQ(found.hardware, expected.hardware);
  EXPECT_EQ(NameStyleName(found.names), NameStyleName(expected.names));
  EXPECT_EQ(found.fused_gate_up, expected.fused_gate_up);
}

struct Proof {
  const char* name;
  nlohmann::json changes;
  Geometry geometry;
};

Geometry Pipelined(Geometry geometry, int pp, int vpp) {
  geometry.pp = pp;
  geometry.vpp = vpp;
  return geometry;
}
Geometry Spread(Geometry geometry, int ep) {
  geometry.ep = ep;
  return geometry;
}
Geometry GateAndUpApart(Geometry geometry) {
  geometry.fused_gate_up = false;
  return geometry;
}

class Proven : public ::testing::TestWithParam<Proof> {};
TEST_P(Proven, ByNamesAndShapesAlone) {
  const Proof& row = GetParam();
  const models::Model model = ModelOf(SmallConfig(row.changes));
  const ShardSet set = MemorySet(model, row.geometry);
  const auto detected = Detect(set, model.config, {Says(row.geometry.hardware)});
  ASSERT_TRUE(detected.ok()) << detected.error().ToString();
  ExpectSame(detected->geometry, row.geometry);
}
const nlohmann::json kMha = {{"num_key_value_heads", 8}};
const nlohmann::json kExperts = {
    {"model_type", "mixtral"}, {"num_local_experts", 4}, {"num_key_value_heads", 2}};
INSTANTIATE_TEST_SUITE_P(
    Sets, Proven,
    ::testing::Values(
        Proof{"Separate", {}, Of(2, QkvStyle::kSeparate)},
        Proof{"GateAndUpApart", {}, GateAndUpApart(Of(2, QkvStyle::kSeparate))},
        Proof{"Linear", {}, Of(2, QkvStyle::kLinear)},
        Proof{"LinearTimes2", {}, Of(4, QkvStyle::kLinear, 2)},
        Proof{"LinearTimes2OnTrn2", {}, Of(8, QkvStyle::kLinear, 2, Hardware::kTrn2)},
        Proof{"Fused", {}, Of(4, QkvStyle::kFused)},
        Proof{"FusedTimes2", {}, Of(8, QkvStyle::kFused, 2)},
        Proof{"FusedTimes2OnTrn2", {}, Of(8, QkvStyle::kFused, 2, Hardware::kTrn2)},
        Proof{"Coalesced", kMha, Of(4, QkvStyle::kCoalesced)},
        Proof{"Megatron", {}, Megatron(Of(4, QkvStyle::kSeparate))},
        Proof{"MegatronOfMha", kMha, Megatron(Of(8, QkvStyle::kSeparate))},
        Proof{"Qwen2Biases", {{"model_type", "qwen2"}}, Of(8, QkvStyle::kFused, 2)},
        Proof{"Qwen3HeadDim",
              {{"model_type", "qwen3"}, {"head_dim", 6}},
              Of(8, QkvStyle::kLinear, 2)},
        Proof{"Experts", kExperts, Of(4, QkvStyle::kFused, 2)},
        Proof{"ExpertsOfNxdt", kExperts, Named(Of(2, QkvStyle::kSeparate), NameStyle::kNxdt)},
        Proof{"ExpertsMegatron", kExperts, Megatron(Of(2, QkvStyle::kSeparate))},
        Proof{"ExpertParallel", kExperts, Spread(Of(2, QkvStyle::kLinear), 2)},
        Proof{"Pipeline", {{"num_hidden_layers", 5}}, Pipelined(Of(2, QkvStyle::kLinear), 2, 1)},
        Proof{"VirtualPipeline",
              {{"num_hidden_layers", 5}},
              Pipelined(Of(2, QkvStyle::kLinear), 2, 2)}),
    [](const auto& row) { return row.param.name; });

TEST(Proven, ATiedHeadChangesNothing) {
  const models::Model model = ModelOf(SmallConfig({{"tie_word_embeddings", true}}));
  const Geometry geometry = Of(2, QkvStyle::kLinear);
  const auto detected = Detect(MemorySet(model, geometry, true), model.config, {});
  ASSERT_TRUE(detected.ok()) << detected.error().ToString();
  ExpectSame(detected->geometry, geometry);
}

struct Contradiction {
  const char* name;
  void (*claim)(Claims&);
  const char* message;
};

class Contradicted : public ::testing::TestWithParam<Contradiction> {};
TEST_P(Contradicted, ShowsBothValues) {
  const models::Model model = ModelOf(SmallConfig({{"num_hidden_layers", 4}}));
  Claims claims = Says(Hardware::kTrn1);
  GetParam().claim(claims);
  const ShardSet set = MemorySet(model, Pipelined(Of(8, QkvStyle::kLinear, 2), 2, 1));
  const auto error =
      ExpectError(Detect(set, model.config, {claims}), Errc::kUsage, GetParam().message);
  ASSERT_TRUE(error);
}
INSTANTIATE_TEST_SUITE_P(
    Claims, Contradicted,
    ::testing::Values(
        Contradiction{"Tp", [](Claims& c) { c.tp = 4; },
                      "tp is 8 by the set's names and shapes, but is 4 by the options"},
        Contradiction{"Pp", [](Claims& c) { c.pp = 1; },
                      "pp is 2 by the set's names and shapes, but is 1 by the options"},
        Contradiction{"Ep", [](Claims& c) { c.ep = 2; },
                      "ep is 1 by the set's names and shapes, but is 2 by the options"},
        Contradiction{"Vpp", [](Claims& c) { c.vpp = 2; },
                      "vpp is 1 by the layers of each pipeline rank, but is 2 by the options"},
        Contradiction{"Multiplier", [](Claims& c) { c.kv_multiplier = 1; },
                      "the kv multiplier is 2 by the set's names and shapes, but is 1 by the "
                      "options"},
        Contradiction{"Qkv", [](Claims& c) { c.qkv = QkvStyle::kFused; },
                      "the q/k/v style is linear by the set's names and shapes, but is fused by "
                      "the options"},
        Contradiction{"Names", [](Claims& c) { c.names = NameStyle::kMegatron; },
                      "the tensor names are hf by the set's names and shapes, but are megatron by "
                      "the options"}),
    [](const auto& row) { return row.param.name; });

TEST(Contradicted, TheSidecarIsNamed) {
  const models::Model model = ModelOf(SmallConfig());
  Claims sidecar;
  sidecar.origin = "nxdkit.json";
  sidecar.in_set = true;
  sidecar.tp = 4;
  ExpectError(Detect(MemorySet(model, Of(2, QkvStyle::kLinear)), model.config,
                     {Says(std::nullopt), sidecar}),
              Errc::kCorrupt,
              "incomplete set: 2 shard files found, 4 expected for tp 4 pp 1 by nxdkit.json; "
              "missing tp_rank_02_pp_rank_00, tp_rank_03_pp_rank_00");
  sidecar.tp = 1;
  ExpectError(Detect(MemorySet(model, Of(2, QkvStyle::kLinear)), model.config, {sidecar}),
              Errc::kCorrupt, "tp is 2 by the set's names and shapes, but is 1 by nxdkit.json");
}

TEST(Stages, OwnCutsAreReadAndMentioned) {
  const models::Model model = ModelOf(SmallConfig({{"num_hidden_layers", 4}}));
  const Geometry geometry = Pipelined(Of(1, QkvStyle::kLinear), 2, 1);
  ShardSet set = MemorySet(model, geometry);
  // Layer 1 moves to the second rank: {0}, {1, 2, 3}.
  auto& first = set.shards[0].tensors.tensors;
  auto& second = set.shards[1].tensors.tensors;
  for (auto it = first.begin(); it != first.end();) {
    const bool moves = it->name.find(".layers.1.") != std::string::npos;
    if (moves) second.push_back(*it);
    it = moves ? first.erase(it) : it + 1;
  }
  const auto detected = Detect(set, model.config, {});
  ASSERT_TRUE(detected.ok()) << detected.error().ToString();
  EXPECT_EQ(detected->geometry.vpp, 1);
  EXPECT_THAT(detected->warnings,
              ElementsAre("the 4 layers are on the 2 pipeline ranks as no vpp of NxD's own cuts "
                          "puts them"));
}

// Detection of a set with kv multiplier 2, as `made`, with `claimed`.
struct HardwareCase {
  const char* name;
  Hardware made;
  std::optional<Hardware> claimed, if_unknown;
  std::optional<Hardware> found;
  ReplicaOrder replicas;
};

class Replicas : public ::testing::TestWithParam<std::tuple<HardwareCase, QkvStyle>> {};
TEST_P(Replicas, TellTheHardware) {
  const auto& [row, qkv] = GetParam();
  const models::Model model = ModelOf(SmallConfig());
  const ShardSet set = MemorySet(model, Of(8, qkv, 2, row.made));
  const auto detected = Detect(set, model.config, {Says(row.claimed)}, row.if_unknown);
  ASSERT_TRUE(detected.ok()) << detected.error().ToString();
  EXPECT_EQ(detected->geometry.hardware, *row.found);
  EXPECT_EQ(detected->replicas, row.replicas);
}
INSTANTIATE_TEST_SUITE_P(
    Orders, Replicas,
    ::testing::Combine(
        ::testing::Values(HardwareCase{"Trn1Claimed", Hardware::kTrn1, Hardware::kTrn1,
                                       std::nullopt, Hardware::kTrn1, ReplicaOrder::kTiled},
                          HardwareCase{"Trn1IfUnknown", Hardware::kTrn1, std::nullopt,
                                       Hardware::kTrn1, Hardware::kTrn1, ReplicaOrder::kTiled},
                          HardwareCase{"Trn2Claimed", Hardware::kTrn2, Hardware::kTrn2,
                                       std::nullopt, Hardware::kTrn2, ReplicaOrder::kAdjacent},
                          HardwareCase{"Trn2Seen", Hardware::kTrn2, std::nullopt, std::nullopt,
                                       Hardware::kTrn2, ReplicaOrder::kAdjacent},
                          HardwareCase{"Trn2SeenThoughTrn1WasTheGuess", Hardware::kTrn2,
                                       std::nullopt, Hardware::kTrn1, Hardware::kTrn2,
                                       ReplicaOrder::kAdjacent}),
        ::testing::Values(QkvStyle::kLinear, QkvStyle::kFused)),
    [](const auto& row) {
      return fmt::format("{}{}", std::get<0>(row.param).name,
                         std::get<1>(row.param) == QkvStyle::kFused ? "Fused" : "Linear");
    });

TEST(Replicas, TiledOnesDoNotTellTrn1FromTheConvertersTrn2) {
  const models::Model model = ModelOf(SmallConfig());
  const ShardSet set = MemorySet(model, Of(8, QkvStyle::kLinear, 2));
  for (const std::optional<Hardware> guess : {std::optional<Hardware>(), {Hardware::kTrn2}}) {
    const auto error = ExpectError(Detect(set, model.config, {Says(std::nullopt)}, guess),
                                   Errc::kUsage, "the set does not say which it is");
    ASSERT_TRUE(error);
    EXPECT_THAT(error->hint(), HasSubstr("--hw trn1"));
  }
}

TEST(Replicas, AdjacentOnesContradictTrn1) {
  const models::Model model = ModelOf(SmallConfig());
  const ShardSet set = MemorySet(model, Of(8, QkvStyle::kLinear, 2, Hardware::kTrn2));
  const auto error = ExpectError(Detect(set, model.config, {Says(Hardware::kTrn1)}), Errc::kCorrupt,
                                 "the options says trn1, but the 2 copies of a key head are on "
                                 "adjacent ranks, as on trn2");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), "set/model");
}

TEST(Replicas, TheConvertersTrn2SetIsRefusedWithTheReason) {
  const models::Model model = ModelOf(SmallConfig());
  const ShardSet set =
      testing_util::ReferenceTrn2Set(model, Of(8, QkvStyle::kLinear, 2, Hardware::kTrn2));
  const auto error = ExpectError(
      Detect(set, model.config, {Says(Hardware::kTrn2)}), Errc::kCorrupt,
      "the 2 copies of a key head are on adjacent ranks, but here they are tiled over the ranks as "
      "on trn1; rank 1: query head 1 belongs to key head 0 but sits with key head 1");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->hint(), HasSubstr("checkpoint_converter.py writes such sets for --hw_backend "
                                       "trn2 with a kv_size_multiplier above 1"));
}

// Exchanges the key projections of two ranks.
void SwapKeys(ShardSet& set, size_t a, size_t b) {
  auto& one = set.shards[a].tensors.tensors;
  auto& other = set.shards[b].tensors.tensors;
  for (size_t i = 0; i < one.size(); ++i)
    if (one[i].name.ends_with(".weight_k")) std::swap(one[i].storage, other[i].storage);
}

TEST(Replicas, CopiesThatDifferAreRefused) {
  const models::Model model = ModelOf(SmallConfig());
  ShardSet set = MemorySet(model, Of(8, QkvStyle::kLinear, 2));
  SwapKeys(set, 0, 1);
  for (const std::optional<Hardware> claimed :
       {std::optional<Hardware>(), {Hardware::kTrn1}, {Hardware::kTrn2}}) {
    const auto error = ExpectError(Detect(set, model.config, {Says(claimed)}), Errc::kCorrupt,
                                   "the copies of a key head differ between ranks, tiled as well "
                                   "as adjacent");
    ASSERT_TRUE(error);
    EXPECT_THAT(error->hint(), HasSubstr("trained from scratch"));
  }
}

TEST(Replicas, EqualKeyHeadsLieBothWays) {
  const models::Model model = ModelOf(SmallConfig());
  ShardSet set = MemorySet(model, Of(8, QkvStyle::kLinear, 2));
  for (Shard& shard : set.shards)
    for (size_t i = 0; i < shard.tensors.tensors.size(); ++i)
      shard.tensors.tensors[i].storage = set.shards[0].tensors.tensors[i].storage;
  const auto detected = Detect(set, model.config, {Says(Hardware::kTrn2)});
  ASSERT_TRUE(detected.ok()) << detected.error().ToString();
  EXPECT_EQ(detected->replicas, ReplicaOrder::kBoth);
  EXPECT_EQ(detected->geometry.hardware, Hardware::kTrn2);
  ExpectError(Detect(set, model.config, {}), Errc::kUsage, "does not say which it is");
}

TEST(Replicas, OfOneKeyHeadLieTheSameOnBoth) {
  const models::Model model = ModelOf(SmallConfig({{"num_key_value_heads", 1}}));
  const auto detected = Detect(MemorySet(model, Of(4, QkvStyle::kFused, 4)), model.config, {});
  ASSERT_TRUE(detected.ok()) << detected.error().ToString();
  EXPECT_EQ(detected->replicas, ReplicaOrder::kBoth);
  EXPECT_EQ(detected->geometry.kv_multiplier, 4);
}

// A tensor [rows, columns] that is stored column by column, with the same elements.
StoredTensor ColumnMajor(const StoredTensor& tensor) {
  const size_t size = static_cast<size_t>(ElementBytes(tensor.dtype));
  const auto rows = static_cast<size_t>(tensor.shape[0]);
  const auto columns = static_cast<size_t>(tensor.shape[1]);
  std::vector<std::byte> from(rows * columns * size);
  EXPECT_TRUE(tensor.storage->ReadAt(0, from).ok());
  std::vector<std::byte> to(from.size());
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c)
      std::memcpy(&to[(c * rows + r) * size], &from[(r * columns + c) * size], size);
  StoredTensor out = tensor;
  out.strides = {1, tensor.shape[0]};
  out.storage = std::make_shared<testing_util::BytesStorage>(std::move(to));
  return out;
}

TEST(Replicas, AreComparedWhateverTheirStrides) {
  const models::Model model = ModelOf(SmallConfig());
  ShardSet set = MemorySet(model, Of(8, QkvStyle::kLinear, 2));
  for (size_t s = 0; s < set.shards.size(); s += 3)
    for (StoredTensor& tensor : set.shards[s].tensors.tensors)
      if (tensor.name.ends_with(".weight_k")) tensor = ColumnMajor(tensor);
  const auto order = CompareReplicas(set, model.config, Of(8, QkvStyle::kLinear, 2));
  ASSERT_TRUE(order.ok()) << order.error().ToString();
  EXPECT_EQ(*order, ReplicaOrder::kTiled);
}

TEST(Replicas, WithoutCopiesTheHardwareIsWhatIsClaimed) {
  const models::Model model = ModelOf(SmallConfig());
  const ShardSet set = MemorySet(model, Of(4, QkvStyle::kLinear));
  for (const Hardware hardware : {Hardware::kTrn1, Hardware::kTrn2}) {
    const auto detected = Detect(set, model.config, {Says(hardware)});
    ASSERT_TRUE(detected.ok()) << detected.error().ToString();
    EXPECT_EQ(detected->geometry.hardware, hardware);
    EXPECT_EQ(detected->replicas, ReplicaOrder::kNone);
  }
}

TEST(Megatron, SeveralKeyHeadsOnARankAreABlockByAssumption) {
  const models::Model model = ModelOf(SmallConfig());
  const auto two = Detect(MemorySet(model, Megatron(Of(2, QkvStyle::kSeparate))), model.config, {});
  ASSERT_TRUE(two.ok()) << two.error().ToString();
  EXPECT_THAT(two->warnings, ElementsAre(HasSubstr("the 2 key heads of a rank are assumed to be in "
                                                   "block order")));
  const auto one = Detect(MemorySet(model, Megatron(Of(4, QkvStyle::kSeparate))), model.config, {});
  ASSERT_TRUE(one.ok()) << one.error().ToString();
  EXPECT_THAT(one->warnings, IsEmpty());
}

// Our writer records the requested q/k/v style in the sidecar; Megatron names have only one.
TEST(Megatron, TheQkvStyleOfAClaimDoesNotCount) {
  const models::Model model = ModelOf(SmallConfig());
  Claims sidecar = Says(std::nullopt);
  sidecar.qkv = QkvStyle::kLinear;
  const auto detected =
      Detect(MemorySet(model, Megatron(Of(4, QkvStyle::kSeparate))), model.config, {sidecar});
  EXPECT_TRUE(detected.ok()) << detected.error().ToString();
}

TEST(Faults, RowsThatAreNoKeyHeads) {
  const models::Model model = ModelOf(SmallConfig());
  ShardSet set = MemorySet(model, Of(2, QkvStyle::kLinear));
  for (StoredTensor& tensor : set.shards[0].tensors.tensors)
    if (tensor.name == "model.layers.0.self_attn.qkv_proj.weight_k") tensor.shape = {5, 16};
  const auto error = ExpectError(Detect(set, model.config, {}), Errc::kCorrupt,
                                 "5 rows on tp 2 are not a multiple of 4 key heads of 2 rows");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "model.layers.0.self_attn.qkv_proj.weight_k");
  EXPECT_EQ(error->file(), "memory");
  EXPECT_THAT(error->hint(), HasSubstr("config"));
}

TEST(Faults, RowsOfAHugeShapeAreNoMultiplier) {
  const models::Model model = ModelOf(SmallConfig());
  ShardSet set = MemorySet(model, Of(2, QkvStyle::kLinear));
  for (const int64_t rows : {int64_t{1} << 62, int64_t{1} << 40, int64_t{4096}}) {
    set.shards[0].tensors.tensors[2].shape = {rows, 16};
    set.shards[0].tensors.tensors[2].strides = {0, 1};
    ASSERT_EQ(set.shards[0].tensors.tensors[2].name, "model.layers.0.self_attn.qkv_proj.weight_k");
    ExpectError(Detect(set, model.config, {}), Errc::kCorrupt,
                fmt::format("{} rows on tp 2", rows));
  }
}

TEST(Faults, AKeyOfAnotherShapeOnOneRank) {
  const models::Model model = ModelOf(SmallConfig());
  ShardSet set = MemorySet(model, Of(8, QkvStyle::kLinear, 2));
  for (StoredTensor& tensor : set.shards[3].tensors.tensors)
    if (tensor.name.ends_with(".weight_k")) tensor.shape = {2, 15};
  const auto error = ExpectError(Detect(set, model.config, {}), Errc::kCorrupt,
                                 "BF16 [2, 15] found, shape [2, 16] expected");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->rank(), 3);
}

TEST(Faults, AKeyThatOneRankLacks) {
  const models::Model model = ModelOf(SmallConfig());
  ShardSet set = MemorySet(model, Of(8, QkvStyle::kLinear, 2));
  std::erase_if(set.shards[5].tensors.tensors,
                [](const StoredTensor& tensor) { return tensor.name.ends_with(".weight_k"); });
  const auto error =
      ExpectError(Detect(set, model.config, {}), Errc::kCorrupt, "the key projection is missing");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->rank(), 5);
  EXPECT_EQ(error->tensor(), "model.layers.0.self_attn.qkv_proj.weight_k");
}

TEST(Faults, ALoraAdapterIsRefusedByName) {
  const models::Model model = ModelOf(SmallConfig());
  ShardSet set = MemorySet(model, Of(2, QkvStyle::kLinear));
  StoredTensor adapter = set.shards[0].tensors.tensors[1];
  adapter.name = "model.layers.0.self_attn.qkv_proj.lora_B.weight_q";
  set.shards[0].tensors.tensors.push_back(adapter);
  const auto error =
      ExpectError(Detect(set, model.config, {}), Errc::kUnsupported, "a LoRA adapter");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), adapter.name);
}

TEST(Faults, ASetWithoutAttentionIsRefused) {
  const models::Model model = ModelOf(SmallConfig());
  ShardSet set = MemorySet(model, Of(2, QkvStyle::kLinear));
  for (Shard& shard : set.shards)
    std::erase_if(shard.tensors.tensors, [](const StoredTensor& tensor) {
      return tensor.name.find("self_attn") != std::string::npos;
    });
  ExpectError(Detect(set, model.config, {}), Errc::kUnsupported,
              "no known q/k/v projection among the tensor names");
}

TEST(Faults, AConfigThatCannotBePlacedOnTheGrid) {
  const models::Model model = ModelOf(SmallConfig());
  const ShardSet set = MemorySet(model, Of(8, QkvStyle::kLinear, 2));
  const models::Model other =
      ModelOf(SmallConfig({{"num_attention_heads", 4}, {"num_key_value_heads", 4}}));
  ExpectError(Detect(set, other.config, {Says(Hardware::kTrn1)}), Errc::kUnsupported,
              "4 query heads cannot be split over tp 8");
}

}  // namespace
}  // namespace nxdkit::nxd
