// mp_metadata_pp_rank_P.json of optimum-neuron's trainer: its contents, and the errors of a wrong
// one.
#include "formats/nxd/mp_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/formats/scratch.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::nxd {
namespace {

using nlohmann::json;
using testing_util::ExpectError;

json Metadata() {
  return json::parse(R"({
    "parameters": {
      "model.norm.weight": {"tensor_model_parallel": false},
      "model.layers.0.mlp.down_proj.weight": {
        "tensor_model_parallel": true, "partition_dim": 1, "partition_stride": 1,
        "num_partitions": 4}},
    "model_weight_transformation_specs": [
      {"module_fully_qualified_name": "model.layers.0.self_attn",
       "specs": [["GQAQKVColumnParallelLinearSpec",
                  {"num_attention_heads": 8, "num_key_value_heads": 2, "kv_size_multiplier": 2,
                   "fuse_qkv": true, "tp_size": 4}]]},
      {"module_fully_qualified_name": "model.layers.0.mlp",
       "specs": [["FusedLinearsSpec", {"tp_size": 4, "fuse_axis": 0}]]}]})");
}

TEST(MpMetadata, SaysHowTensorsAreCut) {
  const auto metadata = ParseMpMetadata(Metadata().dump(), "mp.json");
  ASSERT_TRUE(metadata.ok()) << metadata.error().ToString();
  ASSERT_EQ(metadata->parameters.size(), 2u);
  const MpParameter& down = metadata->parameters[0];  // nlohmann::json sorts
  EXPECT_EQ(down.name, "model.layers.0.mlp.down_proj.weight");
  EXPECT_TRUE(down.parallel);
  EXPECT_EQ(down.dim, 1);
  EXPECT_EQ(down.partitions, 4);
  EXPECT_FALSE(metadata->parameters[1].parallel);
  EXPECT_EQ(metadata->tp, 4);
  EXPECT_EQ(metadata->heads, 8);
  EXPECT_EQ(metadata->kv_heads, 2);
  EXPECT_EQ(metadata->kv_multiplier, 2);
  EXPECT_EQ(metadata->fuse_qkv, true);
}

struct Fault {
  const char* name;
  void (*damage)(json&);
  Errc code;
  const char* member;
  const char* message;
};

json& Gqa(json& root) { return root["model_weight_transformation_specs"][0]["specs"][0][1]; }

class FaultyMpMetadata : public ::testing::TestWithParam<Fault> {};
TEST_P(FaultyMpMetadata, NamesTheKey) {
  const Fault& row = GetParam();
  json root = Metadata();
  row.damage(root);
  const auto error =
      ExpectError(ParseMpMetadata(root.dump(), "shards/mp.json"), row.code, row.message);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->member(), row.member);
  EXPECT_EQ(error->file(), "shards/mp.json");
}
INSTANTIATE_TEST_SUITE_P(
    Keys, FaultyMpMetadata,
    ::testing::Values(
        Fault{"NoParameters", [](json& j) { j.erase("parameters"); }, Errc::kCorrupt, "parameters",
              "found nothing, expected an object"},
        Fault{"NoFlag", [](json& j) { j["parameters"]["model.norm.weight"] = json::object(); },
              Errc::kCorrupt, "parameters.model.norm.weight.tensor_model_parallel",
              "missing; expected true or false"},
        Fault{"Dimension",
              [](json& j) {
                j["parameters"]["model.layers.0.mlp.down_proj.weight"]["partition_dim"] = -1;
              },
              Errc::kCorrupt, "parameters.model.layers.0.mlp.down_proj.weight.partition_dim",
              "found -1, expected an integer from 0 to 1000000"},
        Fault{"NoSpecs", [](json& j) { j["model_weight_transformation_specs"] = 5; },
              Errc::kCorrupt, "model_weight_transformation_specs", "found 5, expected an array"},
        Fault{"NoPair",
              [](json& j) { j["model_weight_transformation_specs"][0]["specs"][0] = {1}; },
              Errc::kCorrupt, "model_weight_transformation_specs[0].specs[0]",
              "found [1], expected a class name and its fields"},
        Fault{"AnotherClass",
              [](json& j) { j["model_weight_transformation_specs"][0]["specs"][0][0] = "MoESpec"; },
              Errc::kUnsupported, "model_weight_transformation_specs[0].specs[0]",
              "layers of class \"MoESpec\" store their parameters in a way that is not known"},
        Fault{"Heads", [](json& j) { Gqa(j)["num_attention_heads"] = "8"; }, Errc::kCorrupt,
              "model_weight_transformation_specs[0].specs[0].num_attention_heads",
              "found \"8\", expected an integer from 1"},
        Fault{"TwoSizes", [](json& j) { Gqa(j)["tp_size"] = 8; }, Errc::kCorrupt,
              "model_weight_transformation_specs[1].specs[0].tp_size",
              "found 4, another layer says 8"}),
    [](const auto& row) { return row.param.name; });

class Record : public ::testing::Test {
 protected:
  void Write(int pp, const json& metadata) const {
    scratch_.Write("mp_metadata_pp_rank_" + std::to_string(pp) + ".json", metadata.dump());
  }
  Result<std::optional<MpRecord>> Read(int pp) const { return ReadMpRecord(scratch_.folder(), pp); }
  const testing_util::Scratch scratch_;
};

TEST_F(Record, IsNoneWithoutFiles) {
  const auto record = Read(1);
  ASSERT_TRUE(record.ok());
  EXPECT_FALSE(record->has_value());
}

TEST_F(Record, OfAllRanksMakesOneClaim) {
  Write(0, Metadata());
  Write(1, Metadata());
  const auto record = Read(2);
  ASSERT_TRUE(record.ok()) << record.error().ToString();
  const Claims& claims = record->value().claims;
  EXPECT_EQ(claims.origin, "mp_metadata_pp_rank_0.json");
  EXPECT_TRUE(claims.in_set);
  EXPECT_EQ(claims.tp, 4);
  EXPECT_EQ(claims.kv_multiplier, 2);
  EXPECT_EQ(claims.qkv, QkvStyle::kFused);
  EXPECT_EQ(claims.hardware, models::Hardware::kTrn1) << "optimum-neuron tiles key heads";
  EXPECT_THAT(record->value().warnings, ::testing::IsEmpty());
}

TEST_F(Record, AMissingFileAndAnOldOneAreMentioned) {
  Write(1, Metadata());
  scratch_.Write("mp_metadata_pp_rank_0.pt", "x");
  const auto record = Read(2);
  ASSERT_TRUE(record.ok()) << record.error().ToString();
  EXPECT_THAT(record->value().warnings,
              ::testing::ElementsAre(
                  ::testing::HasSubstr("mp_metadata_pp_rank_0.pt: the metadata of an older"),
                  ::testing::HasSubstr("mp_metadata_pp_rank_0.json is missing")));
  EXPECT_FALSE(record->value().ranks[0].has_value());
  EXPECT_TRUE(record->value().ranks[1].has_value());
}

TEST_F(Record, OfAPipelineRankThatIsNotHereIsRefused) {
  Write(0, Metadata());
  Write(1, Metadata());
  ExpectError(Read(1), Errc::kCorrupt,
              "the shards are of 1 pipeline rank: those of rank 1 are missing");
}

TEST_F(Record, FilesThatContradictEachOtherAreRefused) {
  Write(0, Metadata());
  json other = Metadata();
  Gqa(other)["kv_size_multiplier"] = 4;
  Write(1, other);
  const auto error =
      ExpectError(Read(2), Errc::kCorrupt, "found 4, mp_metadata_pp_rank_0.json says 2");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->member(), "kv_size_multiplier");
}

}  // namespace
}  // namespace nxdkit::nxd
