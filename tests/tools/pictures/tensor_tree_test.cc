#include "tools/pictures/tensor_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lib/json/json.h"
#include "lib/page/page.h"

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

Json TreeOf(const std::vector<TreeTensor>& tensors, uint64_t max_bytes = page::kMostData) {
  const std::string text = "{" + TreeMembers(tensors, max_bytes) + "}";
  EXPECT_LE(text.size(), max_bytes + 2);
  return Json::parse(text);
}

Json TreeOf(const std::vector<TensorSlices>& all) {
  std::vector<TreeTensor> tensors;
  for (const TensorSlices& slices : all) tensors.push_back({&slices, 64, "attention"});
  return TreeOf(tensors);
}

TEST(TensorTree, LayersThatAreCutAlikeShareAPattern) {
  const Json json = TreeOf({Halves("model.layers.0.q.weight"), Halves("model.layers.1.q.weight")});
  EXPECT_EQ(json["patterns"].size(), 1u);
  EXPECT_EQ(json["patterns"][0]["c"],
            Json::parse("[[0,0,[0,0,4,4],0,0,[0,0,4,4]],[0,1,[4,0,4,4],0,0,[4,0,4,4]]]"));
  EXPECT_EQ(json["tree"],
            Json::parse(R"([["model.layers",[["0.q.weight",0,0],["1.q.weight",0,0]]]])"));
  EXPECT_EQ(json["places"], Json::parse("[[[0],[0,1]]]"));
  EXPECT_EQ(json["brief"], 0);
  EXPECT_EQ(json["others"], Json::parse("[0,0]"));
}

TEST(TensorTree, OtherNamesAreWrittenAsDifferences) {
  TensorSlices fused = Halves("m.qkv.weight");
  fused.sources[0].name = fused.params[0].name = "m.q.weight";
  const Json json = TreeOf({fused});
  EXPECT_EQ(json["tree"], Json::parse(R"([["m.qkv.weight",0,0,[[1,[3,".weight"]],[2,0],[1,1]]]])"));
}

// The same cut in another file of the source is the same pattern.
TEST(TensorTree, FilesAreNoPartOfAPattern) {
  TensorSlices other = Halves("layers.1");
  other.sources[0].file = 3;
  const Json json = TreeOf({Halves("layers.0"), other});
  EXPECT_EQ(json["patterns"].size(), 1u);
  EXPECT_EQ(json["places"], Json::parse("[[[0],[0,1]],[[3],[0,1]]]"));
}

// A name that is a tensor and a folder at once, an empty one, one that is only dots, and one with a
// thousand parts.
TEST(TensorTree, TakesAnyName) {
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "a.";
  const Json json = TreeOf({Halves("a"), Halves("a.b"), Halves(""), Halves("..."), Halves(deep),
                            Halves("\xff\n<b>\xe2\x80\xae")});
  EXPECT_EQ(json["others"][0], 0);
  const std::string text = json.dump();  // throws on bytes that are not UTF-8
  EXPECT_THAT(text, ::testing::HasSubstr("\\\\xff\\\\x0a<b>\\\\xe2"));
}

int64_t LeafBytes(const Json& nodes, const Json& patterns) {
  int64_t bytes = 0;
  for (const Json& node : nodes)
    bytes += node[1].is_array() ? LeafBytes(node[1], patterns)
                                : patterns[node[1].get<size_t>()]["b"].get<int64_t>();
  return bytes;
}

// First the parts of the smallest go, then their names; the sums stay true.
TEST(TensorTree, LeavesOutTheSmallestBeyondItsBytes) {
  std::vector<TensorSlices> all;
  for (int i = 0; i < 5000; ++i)
    all.push_back(Halves("layers." + std::to_string(i) + std::string(i % 3 == 0 ? 300 : 3, '<')));
  std::vector<TreeTensor> tensors;
  int64_t bytes = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    tensors.push_back({&all[i], i, "g"});
    bytes += static_cast<int64_t>(i);
  }
  const Json json = TreeOf(tensors, 600'000);
  EXPECT_GT(json["brief"], 100);
  EXPECT_GT(json["others"][0], 1000);
  EXPECT_LT(json["others"][0], 4900);
  EXPECT_EQ(LeafBytes(json["tree"], json["patterns"]) + json["others"][1].get<int64_t>(), bytes);
}

// One name that is larger than the page hides no other.
TEST(TensorTree, AHugeNameIsShortened) {
  const Json json =
      TreeOf(std::vector{Halves(std::string(10'000'000, '<')), Halves("a"), Halves("b")});
  EXPECT_EQ(json["others"][0], 0);
  EXPECT_EQ(json["tree"].size(), 3u);
}

}  // namespace
}  // namespace nxdkit::tool
