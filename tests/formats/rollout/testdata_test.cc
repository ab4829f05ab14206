// The bundles that the real safetensors wrote (testdata/rollout), compared with the models they
// were cut from, and faults put into copies of them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/kinds/open.h"
#include "formats/kinds/rollout/rollout_state.h"
#include "formats/kinds/table.h"
#include "formats/ops/verify/compare.h"
#include "formats/ops/verify/verify.h"
#include "tests/formats/scratch.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::ops {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string Source(const std::string& name) {
  return std::string(NXDKIT_TESTDATA) + "/rollout/" + name;
}

BoundArtifact Bound(const std::string& path, const Kind* kind) {
  auto bound = OpenAndBind(path, kind, {});
  EXPECT_TRUE(bound.ok()) << bound.error().ToString();
  return bound.ok() ? *std::move(bound) : BoundArtifact();
}

std::string Text(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) text += finding.ToString() + "\n";
  return text;
}

struct Sample {
  const char* bundle;
  const char* model;
  bool transposed;
};

class Bundles : public ::testing::TestWithParam<Sample> {};

TEST_P(Bundles, AreRecognisedAndEqualTheirModel) {
  const Result<const Kind*> kind = Recognise(Source(GetParam().bundle));
  ASSERT_TRUE(kind.ok()) << kind.error().ToString();
  EXPECT_EQ((*kind)->name, "rollout");
  const BoundArtifact bundle = Bound(Source(GetParam().bundle), &ops::kRollout);
  ASSERT_TRUE(RolloutGeometryOf(bundle));
  const rollout::Geometry& geometry = *RolloutGeometryOf(bundle);
  EXPECT_EQ(geometry.tp, 4);
  EXPECT_TRUE(geometry.fused_qkv);
  EXPECT_EQ(geometry.transposed_qkv, GetParam().transposed);
  EXPECT_EQ(geometry.transposed_output, GetParam().transposed);
  EXPECT_EQ(geometry.transposed_mlp, GetParam().transposed);
  EXPECT_EQ(geometry.vocab_parallel, GetParam().transposed);
  const BoundArtifact hf = Bound(Source(GetParam().model), &ops::kHf);
  for (const auto& [expected, actual] : {std::pair(&hf, &bundle), std::pair(&bundle, &hf)}) {
    const auto findings = CompareArtifacts(*expected, *actual, {});
    ASSERT_TRUE(findings.ok()) << findings.error().ToString();
    EXPECT_EQ(Text(*findings), "");
  }
}

TEST_P(Bundles, AreVerifiedGood) {
  VerifyRequest request;
  request.path = Source(GetParam().bundle);
  request.against = Source(GetParam().model);
  const auto report = Verify(request);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_EQ(Text(report->findings), "");
  EXPECT_THAT(report->checks, ::testing::Contains(HasSubstr("rank tensors hold their rank")));
}

INSTANTIATE_TEST_SUITE_P(Real, Bundles,
                         ::testing::Values(Sample{"optimum", "hf-qwen3", false},
                                           Sample{"nxdi", "hf-qwen2", true}),
                         [](const auto& row) { return std::string(row.param.bundle); });

// One element of a tensor of one rank, changed in a copy of the optimum bundle.
struct Change {
  const char* name;
  const char* tensor;
  int rank;
  int64_t element;
  const char* check;
  Shape index;
};

class Damage : public ::testing::TestWithParam<Change> {};
TEST_P(Damage, IsFound) {
  const Change& row = GetParam();
  const testing_util::Scratch scratch;
  const std::string folder = scratch.Path("bundle");
  fs::copy(Source("optimum"), folder, fs::copy_options::recursive);
  const BoundArtifact bundle = Bound(folder, &ops::kRollout);
  for (size_t i = 0; i < bundle.bound.stored.size(); ++i) {
    const StoredTensor& stored = bundle.bound.stored[i];
    const LayoutFile& file = bundle.bound.layout.files[bundle.bound.layout.tensors[i].file];
    if (stored.name != row.tensor || file.tp_rank != row.rank) continue;
    std::string bytes = testing_util::ReadBytes(file.path);
    const uint64_t at = stored.storage->file_offset() + stored.offset +
                        static_cast<uint64_t>(row.element * ElementBytes(stored.dtype));
    bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
    std::ofstream(file.path, std::ios::binary) << bytes;
  }
  VerifyRequest request;
  request.path = folder;
  const auto report = Verify(request);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  ASSERT_FALSE(report->findings.empty());
  const Finding& finding = report->findings[0];
  EXPECT_EQ(finding.check, row.check) << Text(report->findings);
  EXPECT_EQ(finding.tensor, row.tensor);
  EXPECT_EQ(finding.rank, row.rank);
  EXPECT_EQ(finding.index, row.index);
  EXPECT_EQ(finding.count, 1);
}
// Rank 1 of Wqkv: query heads 2 and padding, then key head 0 and value head 0 of two rows each.
INSTANTIATE_TEST_SUITE_P(
    Elements, Damage,
    ::testing::Values(
        Change{"ZeroHead",
               "layers.0.self_attn.qkv_proj.Wqkv.weight",
               1,
               2 * 10 + 3,
               "padding",
               {2, 3}},
        Change{
            "KeyReplica", "layers.0.self_attn.qkv_proj.Wqkv.weight", 1, 4 * 10, "replica", {0, 0}},
        Change{"HiddenPadding", "embed_tokens.weight", 3, 2, "padding", {0, 2}},
        Change{"VocabularyPadding", "lm_head.weight", 3, 2 * 10 + 9, "padding", {2, 9}},
        Change{"Norm", "norm.weight", 2, 7, "replica", {7}},
        Change{"TiedHead", "lm_head.weight", 2, 5, "tied", {6, 5}},
        Change{"RankTensor", "rank_util.rank", 2, 0, "rank tensor", {0}}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Unsupported, SettingsAreNamedWhenTheLayoutIsNeeded) {
  const testing_util::Scratch scratch;
  fs::copy(Source("nxdi"), scratch.Path("bundle"), fs::copy_options::recursive);
  std::string config = testing_util::ReadBytes(Source("nxdi/neuron_config.json"));
  const std::string flag = "\"quantized\": false";
  config.replace(config.find(flag), flag.size(), "\"quantized\": true");
  scratch.Write("bundle/neuron_config.json", config);
  const auto error = testing_util::ExpectError(
      OpenAndBind(scratch.Path("bundle"), &ops::kRollout, {}), Errc::kUnsupported,
      "shards made with quantized: true have another layout");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), scratch.Path("bundle/neuron_config.json"));
}

// The weights of an inference engine alone, without neuron_config.json.
TEST(Bare, AFolderOfShardsIsABundleToo) {
  InputHints hints;
  hints.config = Source("optimum/config.json");
  const auto bare = OpenAndBind(Source("optimum/checkpoint/weights"), &ops::kRollout, hints);
  ASSERT_TRUE(bare.ok()) << bare.error().ToString();
  const auto findings = CompareArtifacts(Bound(Source("hf-qwen3"), &ops::kHf), *bare, {});
  ASSERT_TRUE(findings.ok()) << findings.error().ToString();
  EXPECT_EQ(Text(*findings), "");
}

}  // namespace
}  // namespace nxdkit::ops
