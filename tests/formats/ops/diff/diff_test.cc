// Models compared across layouts, element types and families without a table.
#include "formats/ops/diff/diff.h"

#include "tests/formats/ops/ops_workshop.h"
#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using ops::DiffReport;
using ops::Kind;
using testing_util::ExpectError;
using testing_util::FindStored;
using testing_util::FlipElement;
using testing_util::OpsWorkshop;

class Diff : public ::testing::Test {
 protected:
  static DiffReport Compare(const std::string& a, const std::string& b,
                            const ops::RunOptions& run = {}, const ops::DiffLimits& limits = {}) {
    ops::DiffRequest request;
    request.a.path = a;
    request.b.path = b;
    request.limits = limits;
    request.run = run;
    Result<DiffReport> report = ops::Diff(request);
    EXPECT_TRUE(report.ok()) << report.error().ToString();
    return report.ok() ? *std::move(report) : DiffReport();
  }
  static ops::OutputOptions Ranks(int tp) {
    ops::OutputOptions options;
    options.Set("tp", tp);
    return options;
  }

  const OpsWorkshop workshop_;
  const std::string hf_ = workshop_.MakeModel("model", testing_util::TinyQwen3());
};

TEST_F(Diff, FindsNothingBetweenLayouts) {
  const std::string set = workshop_.Make("set", hf_, &ops::kHf, &ops::kNxd, Ranks(2));
  const std::string bundle = workshop_.Make("bundle", hf_, &ops::kHf, &ops::kRollout, Ranks(3));
  for (const auto& [a, b] : {std::pair(hf_, set), std::pair(set, bundle), std::pair(bundle, hf_)}) {
    const DiffReport report = Compare(a, b);
    EXPECT_FALSE(report.differs()) << a << " " << b;
    EXPECT_EQ(report.params.size(), 46u);
    EXPECT_EQ(report.total.changed, 0u);
    EXPECT_GT(report.total.elements, 10'000u);
  }
}

TEST_F(Diff, NamesTheWorstElementOfASlice) {
  const std::string set = workshop_.Make("set", hf_, &ops::kHf, &ops::kNxd, Ranks(2));
  // Columns 24 to 47 of 48 are rank 1's: row 2, column 5 of the slice.
  const std::string name = "model.layers.1.mlp.down_proj.weight";
  FlipElement(FindStored(set, &ops::kNxd, name, 1), 2 * 24 + 5);
  const DiffReport report = Compare(hf_, set);
  EXPECT_TRUE(report.differs());
  EXPECT_EQ(report.total.changed, 1u);
  EXPECT_EQ(report.total.ulps[1], 1u);
  const ops::ParamDiff& worst = report.params.front();
  EXPECT_EQ(worst.name, name);
  EXPECT_EQ(worst.worst_index, Shape({2, 29}));
  EXPECT_NE(worst.worst_a, worst.worst_b);
  EXPECT_EQ(report.params[1].tally.changed, 0u);
  ops::DiffLimits limits;
  limits.max_ulp = 1;
  EXPECT_FALSE(Compare(hf_, set, {}, limits).differs());
}

// F32 rounded to BF16: at most half a step, so 0 ulps of BF16.
TEST_F(Diff, ComparesTypesOfDifferentWidth) {
  const std::string wide = workshop_.MakeModel("wide", testing_util::TinyQwen3(), Dtype::kF32);
  ops::OutputOptions options = Ranks(2);
  options.dtype = Dtype::kBF16;
  const std::string narrow = workshop_.Make("narrow", wide, &ops::kHf, &ops::kNxd, options);
  const DiffReport report = Compare(wide, narrow);
  EXPECT_TRUE(report.differs());
  EXPECT_GT(report.total.changed, 1000u);
  EXPECT_EQ(report.total.ulps[0], report.total.changed);
  EXPECT_LE(report.total.max_rel, 0x1p-8);
  EXPECT_EQ(report.params.front().a_dtype, Dtype::kF32);
  EXPECT_EQ(report.params.front().b_dtype, Dtype::kBF16);
  ops::DiffLimits limits;
  limits.max_ulp = 0;
  EXPECT_FALSE(Compare(wide, narrow, {}, limits).differs());
  EXPECT_FALSE(Compare(narrow, wide, {}, limits).differs());
}

TEST_F(Diff, DoesNotDependOnThreadsAndMemory) {
  testing_util::TinyModel model = testing_util::TinyLlama();
  model.hidden = 328;
  model.vocab = 5002;
  const std::string a = workshop_.MakeModel("a", model);
  const std::string b = workshop_.Make("b", workshop_.MakeModel("c", model, Dtype::kF32), &ops::kHf,
                                       &ops::kNxd, Ranks(2));
  const DiffReport expected = Compare(a, b);
  EXPECT_TRUE(expected.differs());
  for (const int jobs : {2, 7, 100}) {
    ops::RunOptions run;
    run.jobs = jobs;
    run.max_memory = uint64_t{jobs > 7 ? 256u : 512u} << 20;
    const DiffReport report = Compare(a, b, run);
    ASSERT_EQ(report.params.size(), expected.params.size());
    EXPECT_EQ(report.total.sum_abs, expected.total.sum_abs);
    EXPECT_EQ(report.total.sum_rel, expected.total.sum_rel);
    EXPECT_EQ(report.update.squares.a, expected.update.squares.a);
    EXPECT_EQ(report.update.squares.update, expected.update.squares.update);
    EXPECT_EQ(report.total.ulps, expected.total.ulps);
    for (size_t i = 0; i < report.params.size(); ++i) {
      EXPECT_EQ(report.params[i].name, expected.params[i].name);
      EXPECT_EQ(report.params[i].worst_index, expected.params[i].worst_index);
      EXPECT_EQ(report.params[i].worst_a, expected.params[i].worst_a);
    }
  }
}

TEST_F(Diff, NamesParametersThatOnlyOneHas) {
  const std::string llama = workshop_.MakeModel("llama", testing_util::TinyLlama());
  const DiffReport report = Compare(hf_, llama);
  EXPECT_TRUE(report.differs());
  std::map<std::string, std::string> checks;
  for (const ops::Finding& finding : report.findings) checks[finding.param] = finding.check;
  EXPECT_EQ(checks["lm_head.weight"], "only in b");
  EXPECT_EQ(checks["model.layers.0.self_attn.q_norm.weight"], "only in a");
  EXPECT_EQ(checks["model.layers.0.self_attn.q_proj.weight"], "shape");
  EXPECT_FALSE(checks.contains("model.norm.weight"));
}

TEST_F(Diff, RefusesAnArtifactWithADifferentCopy) {
  const std::string set = workshop_.Make("set", hf_, &ops::kHf, &ops::kNxd, Ranks(2));
  FlipElement(FindStored(set, &ops::kNxd, "model.norm.weight", 1), 5);
  ops::DiffRequest request;
  request.a.path = hf_;
  request.b.path = set;
  const auto error = ExpectError(ops::Diff(request), Errc::kCorrupt,
                                 "1 element differs from the other copy of model.norm.weight");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "model.norm.weight");
}

}  // namespace
}  // namespace nxdkit
