// Models with experts through all of formats/ops: the contents of the files, the effect of one
// flipped element, and the refused models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/kinds/open.h"
#include "formats/kinds/rollout/rollout_state.h"
#include "formats/models/sample_model.h"
#include "formats/torch/archive.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/words.h"
#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using ops::Finding;
using ops::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_util::ExpectError;
using testing_util::FindingsOf;
using testing_util::FindStored;
using testing_util::FlipElement;
using testing_util::OpsWorkshop;

ops::OutputOptions Ranks(int tp, int ep = 1, bool xser = false) {
  ops::OutputOptions options;
  options.Set("tp", tp);
  options.Set("ep", ep);
  options.Set("xser", xser);
  return options;
}

class Experts : public ::testing::Test {
 protected:
  Finding Only(const std::string& path) const {
    const std::vector<Finding> findings = FindingsOf(path);
    EXPECT_EQ(findings.size(), 1u) << path;
    return findings.empty() ? Finding() : findings.front();
  }
  // A set with its files in the tag's folder model/.
  std::string File(const std::string& set, const std::string& name) const {
    return set + "/model/" + name;
  }

  const OpsWorkshop workshop_;
  const std::string mixtral_ = workshop_.MakeModel("mixtral", testing_util::TinyMixtral());
};

// gate[e] = w1[e] transposed, up[e] = w3[e], down[e] = w2[e].
TEST_F(Experts, EveryElementLiesWhereTheModuleLooksForIt) {
  const std::string set = workshop_.Make("set", mixtral_, &ops::kHf, &ops::kNxd, Ranks(2));
  constexpr int64_t kHidden = 32;
  constexpr int64_t kColumns = 48 / 2;  // on one rank
  const std::string layer = "model.layers.3.";
  const auto gate_up =
      FindStored(set, &ops::kNxd, layer + "mlp.expert_mlps.mlp_op.gate_up_proj.weight", 1);
  const auto down =
      FindStored(set, &ops::kNxd, layer + "mlp.expert_mlps.mlp_op.down_proj.weight", 1);
  ASSERT_EQ(gate_up.tensor.shape, (Shape{4, kHidden, 2 * kColumns}));
  ASSERT_EQ(down.tensor.shape, (Shape{4, kColumns, kHidden}));
  for (int64_t e = 0; e < 4; ++e) {
    const std::string expert = layer + "block_sparse_moe.experts." + std::to_string(e);
    const auto bits = [&](const char* which, int64_t row, int64_t column, int64_t columns) {
      return models::SampleBf16(testing_util::kSeed, expert + which,
                                static_cast<uint64_t>(row * columns + column));
    };
    for (const int64_t h : {int64_t{0}, int64_t{7}, kHidden - 1}) {
      for (const int64_t i : {int64_t{0}, int64_t{5}, kColumns - 1}) {
        const int64_t row = kColumns + i;  // rank 1's second half
        const int64_t at = (e * kHidden + h) * 2 * kColumns + i;
        EXPECT_EQ(testing_util::BitsOf(gate_up, at), bits(".w1.weight", row, h, kHidden));
        EXPECT_EQ(testing_util::BitsOf(gate_up, at + kColumns),
                  bits(".w3.weight", row, h, kHidden));
        EXPECT_EQ(testing_util::BitsOf(down, (e * kColumns + i) * kHidden + h),
                  bits(".w2.weight", h, row, 2 * kColumns));
      }
    }
  }
}

TEST_F(Experts, OfEachExpertParallelRankAreItsOwn) {
  const std::string set = workshop_.Make("set", mixtral_, &ops::kHf, &ops::kNxd, Ranks(1, 2, true));
  const std::string first = "dp_rank_00_ep_rank_00_tp_rank_00_pp_rank_00.pt";
  const std::string second = "dp_rank_00_ep_rank_01_tp_rank_00_pp_rank_00.pt";
  const auto count = [&](const std::string& name) {
    size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(File(set, name) + ".tensors"))
      files += entry.is_regular_file();
    return files;
  };
  EXPECT_EQ(count(first), 3u + 4u * 9u);
  EXPECT_EQ(count(second), 4u * 2u) << "what is no expert's is stored with ep rank 0";
  const Result<torch::Archive> info = torch::ReadArchive(File(set, second) + ".info.pt");
  ASSERT_TRUE(info.ok()) << info.error().ToString();
  size_t experts = 0;
  for (const auto& [tid, entry] : *info->root.dict()) {
    const torch::PickleValue* flag = entry.Find("expert_model_parallel");
    ASSERT_NE(flag, nullptr);
    experts += *std::get_if<bool>(&flag->value);
  }
  EXPECT_EQ(experts, 8u);
  EXPECT_EQ(info->root.dict()->size(), 3u + 4u * 9u) << "every rank lists all tensors";
}

TEST_F(Experts, AFlippedRouterIsAReplicaThatDiffers) {
  const std::string set = workshop_.Make("set", mixtral_, &ops::kHf, &ops::kNxd, Ranks(2));
  EXPECT_TRUE(FindingsOf(set).empty());
  const std::string name = "model.layers.1.mlp.router.linear_router.weight";
  FlipElement(FindStored(set, &ops::kNxd, name, 1), 2 * 32 + 3);
  const Finding finding = Only(set);
  EXPECT_EQ(finding.check, "replica");
  EXPECT_EQ(finding.tensor, name);
  EXPECT_EQ(finding.param, "model.layers.1.block_sparse_moe.gate.weight");
  EXPECT_EQ(finding.rank, 1);
  EXPECT_EQ(finding.index, Shape({2, 3}));
}

TEST_F(Experts, AFlippedWeightIsFoundWithItsExpertAndPlace) {
  const std::string set = workshop_.Make("set", mixtral_, &ops::kHf, &ops::kNxd, Ranks(2, 2));
  // Rank tp 1 ep 1 holds experts 2 and 3; the second's up, hidden 4, column 6 of the rank.
  const std::string name = "model.layers.0.mlp.expert_mlps.mlp_op.gate_up_proj.weight";
  for (const auto& stored : testing_util::StoredTensors(set, &ops::kNxd)) {
    if (stored.tensor.name != name || stored.rank != 1 ||
        stored.file.find("ep_rank_01") == std::string::npos)
      continue;
    FlipElement(stored, (1 * 32 + 4) * 48 + 24 + 6);
  }
  EXPECT_TRUE(FindingsOf(set).empty()) << "nothing is stored twice but the rest";
  const std::vector<Finding> findings = FindingsOf(set, mixtral_);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].check, "value");
  EXPECT_EQ(findings[0].param, "model.layers.0.block_sparse_moe.experts.3.w3.weight");
  EXPECT_EQ(findings[0].index, Shape({24 + 6, 4}));
  EXPECT_EQ(findings[0].rank, 1);
}

TEST_F(Experts, ANormOfAnotherExpertParallelRankIsACopy) {
  const std::string set = workshop_.Make("set", mixtral_, &ops::kHf, &ops::kNxd, Ranks(1, 2));
  for (const auto& stored : testing_util::StoredTensors(set, &ops::kNxd))
    if (stored.tensor.name == "model.norm.weight" &&
        stored.file.find("ep_rank_01") != std::string::npos)
      FlipElement(stored, 4);
  const Finding finding = Only(set);
  EXPECT_EQ(finding.check, "replica");
  EXPECT_EQ(finding.tensor, "model.norm.weight");
  EXPECT_THAT(finding.file, HasSubstr("ep_rank_01"));
}

TEST_F(Experts, TheirRankTensorIsChecked) {
  ops::OutputOptions options = Ranks(2);
  options.Set("flavor", Word(rollout::Flavor::kNxdi));
  const std::string bundle = workshop_.Make("b", mixtral_, &ops::kHf, &ops::kRollout, options);
  EXPECT_TRUE(FindingsOf(bundle).empty());
  FlipElement(FindStored(bundle, &ops::kRollout, "layers.2.mlp.expert_mlps.spmd_rank.rank", 1), 0);
  const Finding finding = Only(bundle);
  EXPECT_EQ(finding.check, "rank tensor");
  EXPECT_EQ(finding.expected, "1 (0x00000001)");
}

// Two ranks' files of one tensor each hold all experts, as written by the reference converter.
TEST_F(Experts, OfTheConvertersExpertParallelSetsAreRefused) {
  const std::string whole = workshop_.Make("whole", mixtral_, &ops::kHf, &ops::kNxd, Ranks(1));
  const std::string set = workshop_.Make("set", mixtral_, &ops::kHf, &ops::kNxd, Ranks(1, 2));
  for (const char* ep : {"00", "01"})
    std::filesystem::copy_file(
        File(whole, "dp_rank_00_tp_rank_00_pp_rank_00.pt"),
        File(set, "dp_rank_00_ep_rank_" + std::string(ep) + "_tp_rank_00_pp_rank_00.pt"),
        std::filesystem::copy_options::overwrite_existing);
  const auto error = ExpectError(ops::OpenAndBind(set, &ops::kNxd, {}), Errc::kCorrupt,
                                 "all 4 experts are stored here, 2 of each of the 2 expert "
                                 "parallel ranks were expected");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "model.layers.0.mlp.expert_mlps.mlp_op.gate_up_proj.weight");
  EXPECT_THAT(error->hint(), HasSubstr("checkpoint_converter.py writes such sets"));
}

// Shards without a configuration: rank tensors distinguish NxDI's from optimum's.
TEST_F(Experts, BareShardsOfBothFlavorsAreRead) {
  for (const rollout::Flavor flavor : {rollout::Flavor::kOptimum, rollout::Flavor::kNxdi}) {
    ops::OutputOptions options = Ranks(2);
    options.Set("flavor", Word(flavor));
    const std::string name(rollout::FlavorName(flavor));
    const std::string bundle = workshop_.Make(name, mixtral_, &ops::kHf, &ops::kRollout, options);
    std::filesystem::remove(bundle + "/neuron_config.json");
    const auto bound = ops::OpenAndBind(bundle, &ops::kRollout, {});
    ASSERT_TRUE(bound.ok()) << bound.error().ToString();
    EXPECT_EQ(rollout::FlavorName(ops::RolloutGeometryOf(*bound)->flavor), name);
  }
}

Status Refusal(const OpsWorkshop& workshop, const std::string& model, const Kind* to,
               const ops::OutputOptions& options) {
  const auto report =
      ops::DryRun(OpsWorkshop::Request(model, &ops::kHf, workshop / "none", to, options));
  return report.ok() ? OkStatus() : report.error();
}

TEST_F(Experts, ThatADenseModelLacksAreNotSpread) {
  const std::string llama = workshop_.MakeModel("llama", testing_util::TinyLlama());
  ExpectError(Refusal(workshop_, llama, &ops::kNxd, Ranks(2, 2)), Errc::kUnsupported,
              "a llama model has no experts to spread over ep 2");
  ops::OutputOptions options = Ranks(2);
  options.Set("style", Word(nxd::NameStyle::kNxdt));
  ExpectError(Refusal(workshop_, llama, &ops::kNxd, options), Errc::kUsage,
              "--style nxdt names the experts of a model; a llama model has none");
}

}  // namespace
}  // namespace nxdkit
