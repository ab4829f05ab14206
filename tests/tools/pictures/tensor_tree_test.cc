#include "tools/pictures/tensor_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace nxdkit::tool {
namespace {

using artifact::TensorSlices;

// A parameter of two ranks, each with half of its rows.
TensorSlices Halves(const std::string& name) {
  TensorSlices slices;
  slices.name = name;
  slices.sources = {{name, 0, Dtype::kBF16, {8, 4}}};
  slices.params = {{name, {8, 4}, 2, 0}};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    slices.targets.push_back({name, rank, Dtype::kBF16, {4, 4}});
    const Box half{{rank * 4, 0}, {4, 4}};
    slices.slices.push_back({0, rank, half, WholeBox({4, 4}), 0, half});
  }
  return slices;
}

Json TreeOf(const std::vector<TensorSlices>& all, uint64_t max_bytes = kTreeBytes) {
  std::vector<TreeTensor> tensors;
  for (const TensorSlices& slices : all) tensors.push_back({&slices, 64, "attention"});
  return TensorTree(tensors, max_bytes);
}

TEST(TensorTree, LayersThatAreCutAlikeShareAPattern) {
  const Json json = TreeOf({Halves("model.layers.0.q.weight"), Halves("model.layers.1.q.weight")});
  EXPECT_EQ(json["patterns"].size(), 1u);
  EXPECT_EQ(json["patterns"][0]["c"],
            Json::parse("[[0,0,[0,0,4,4],0,0,[0,0,4,4]],[0,1,[4,0,4,4],0,0,[4,0,4,4]]]"));
  EXPECT_EQ(json["tree"], Json::parse(R"([["model.layers",[["0.q.weight",0],["1.q.weight",0]]]])"));
  EXPECT_EQ(json["left_out"], 0);
}

TEST(TensorTree, OtherNamesAreWrittenAsDifferences) {
  TensorSlices fused = Halves("m.qkv.weight");
  fused.sources[0].name = "m.q.weight";
  const Json json = TreeOf({fused});
  EXPECT_EQ(json["tree"], Json::parse(R"([["m.qkv.weight",0,[[3,".weight"]]]])"));
}

// A name that is a tensor and a folder at once, an empty one, one that is only dots, and one with a
// thousand parts.
TEST(TensorTree, TakesAnyName) {
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "a.";
  const Json json = TreeOf({Halves("a"), Halves("a.b"), Halves(""), Halves("..."), Halves(deep),
                            Halves("\xff\n<b>\xe2\x80\xae")});
  EXPECT_EQ(json["left_out"], 0);
  const std::string text = json.dump();  // throws on bytes that are not UTF-8
  EXPECT_THAT(text, ::testing::HasSubstr("\\\\xff\\\\x0a<b>\\\\xe2"));
}

TEST(TensorTree, LeavesOutTheSmallestBeyondItsBytes) {
  std::vector<TensorSlices> all;
  for (int i = 0; i < 5000; ++i)
    all.push_back(Halves("layers." + std::to_string(i) + std::string(300, 'x')));
  std::vector<TreeTensor> tensors;
  for (size_t i = 0; i < all.size(); ++i) tensors.push_back({&all[i], i, "g"});
  const Json json = TensorTree(tensors, 100'000);
  const auto left_out = json["left_out"].get<size_t>();
  EXPECT_GT(left_out, 4000u);
  EXPECT_LT(left_out, 5000u);
  EXPECT_LT(json.dump().size(), 250'000u);
  // The largest are there, in the order of the model.
  EXPECT_EQ(json["tree"][0][1].back()[0], "4999" + std::string(300, 'x'));
}

}  // namespace
}  // namespace nxdkit::tool
