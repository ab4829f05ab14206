// The data of the page that ckpt-diff --html writes.
#include "tools/pictures/diff_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/core.h>

#include <cmath>

#include "formats/kinds/open.h"
#include "lib/json/json.h"

namespace nxdkit::tool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ops::ParamDiff Param(const std::string& name, double norm_a, double norm_update) {
  ops::ParamDiff param;
  param.name = name;
  param.shape = {2, 3};
  param.tally.elements = 6;
  param.tally.changed = norm_update > 0 ? 5 : 0;
  param.tally.max_abs = norm_update / 3;
  param.tally.sum_abs = norm_update;
  param.squares = {norm_a * norm_a, norm_update * norm_update};
  return param;
}

ops::DiffReport ReportOf(std::vector<ops::ParamDiff> params) {
  ops::DiffReport report;
  report.a_kind = report.b_kind = kinds::KindFromName("hf");
  std::vector<ops::MovedParam> moved;
  for (const ops::ParamDiff& param : params) {
    const ops::DiffTally& tally = param.tally;
    moved.push_back({param.name, moved.size(), tally.elements, tally.changed, param.squares,
                     tally.nan + tally.infinite, tally.max_abs});
    report.total.Merge(tally);
  }
  report.layers = ops::MovesOf(moved);
  report.modules = ops::ModulesOf(moved);
  for (const ops::LayerMove& layer : report.layers) report.update.Add(layer);
  report.params = std::move(params);
  return report;
}

ops::VersionsReport Whole(std::vector<ops::ParamDiff> params) {
  ops::VersionsReport report;
  report.whole = ReportOf(std::move(params));
  return report;
}

Json DataOf(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"heat\">";
  const size_t at = page.find(begin) + begin.size();
  const Result<Json> json = ParseJson(page.substr(at, page.find("</script>", at) - at));
  EXPECT_TRUE(json.ok()) << json.error().ToString();
  return json.ok() ? *json : Json();
}

// As heat.js puts them together.
std::string NameOf(const Json& data, const Json& param) {
  if (param[0] == -1) return param[2];
  std::string rest = data["modules"][param[1].get<size_t>()];
  if (param[2].is_string()) {
    std::string numbers = param[2];
    for (size_t star; (star = rest.find('*')) != rest.npos;) {
      const size_t dot = std::min(numbers.find('.'), numbers.size());
      rest.replace(star, 1, numbers.substr(0, dot));
      numbers.erase(0, dot + 1);
    }
  }
  const std::string row = data["rows"][param[0].get<size_t>()];
  return rest.empty() ? row : row + "." + rest;
}

std::vector<std::string> ParamNames(const Json& data) {
  std::vector<std::string> names;
  for (const Json& param : data["params"]) names.push_back(NameOf(data, param));
  return names;
}

TEST(DiffPage, HasTheParametersTheWorstFirst) {
  ops::ParamDiff broken = Param("model.layers.1.mlp.up_proj.weight", 1, 0.001);
  broken.tally.nan = 1;
  const Json data = DataOf(DiffPage(
      {"a", "b"}, Whole({Param("model.layers.0.mlp.up_proj.weight", 4, 1), broken,
                         Param("model.layers.1.lora_B.weight", 0, 2), Param("lm_head.weight", 3, 0),
                         Param("model.layers.0.mlp.experts.17.w1.3.weight", 2, 1), Param("x", 2, 2),
                         Param("model.layers.007.mlp.up_proj.weight", 8, 1)})));
  EXPECT_THAT(
      ParamNames(data),
      ElementsAre("model.layers.1.mlp.up_proj.weight", "model.layers.1.lora_B.weight", "x",
                  "model.layers.0.mlp.experts.17.w1.3.weight", "model.layers.0.mlp.up_proj.weight",
                  "model.layers.007.mlp.up_proj.weight", "lm_head.weight"));
  const Json& third = data["params"][4];
  EXPECT_EQ(third[4], 5);
  EXPECT_EQ(third[5], 4);
  EXPECT_EQ(third[6], 1);
  EXPECT_EQ(third[7], 0.333333);
  EXPECT_EQ(third[8], 0.166667) << "the mean";
  EXPECT_EQ(data["params"][0].size(), 13u) << "with its NaN";
  EXPECT_EQ(data["params"][0][11], 1);
}

TEST(DiffPage, FoldsExpertsIntoOneCell) {
  const Json data =
      DataOf(DiffPage({"a", "b"}, Whole({Param("model.layers.3.mlp.experts.0.w1.weight", 3, 0.6),
                                         Param("model.layers.3.mlp.experts.1.w1.weight", 4, 0.8),
                                         Param("model.layers.3.norm.weight", 1, 0)})));
  ASSERT_EQ(data["cells"][0].size(), 2u);
  EXPECT_EQ(data["modules"][0], "mlp.experts.*.w1.weight");
  EXPECT_EQ(data["cells"][0][0], Json::array({0, 0, 2, 12, 10, 5, 1, 0.266667, 0}));
  EXPECT_EQ(data["steps"][0]["layers"][0], Json::array({0, 3, 18, 10, 5.09902, 1}));
  EXPECT_EQ(data["rows"], Json::array({"model.layers.3"}));
  EXPECT_EQ(data["stacks"][data["row_stacks"][0].get<size_t>()], "model.layers");
}

TEST(DiffPage, HasAStripAndAMapForEachStep) {
  ops::VersionsReport report = Whole({Param("l.0.a", 1, 3), Param("l.1.a", 1, 3)});
  report.steps = {ReportOf({Param("l.0.a", 1, 1), Param("l.1.a", 1, 2)}),
                  ReportOf({Param("l.1.a", 1, 5), Param("l.1.b", 1, 5)})};
  const Json data = DataOf(DiffPage({"run/a", "run/b", "run/c"}, report));
  ASSERT_EQ(data["steps"].size(), 3u);
  EXPECT_EQ(data["steps"][0]["label"], "a \u2192 c");
  EXPECT_EQ(data["steps"][2]["label"], "b \u2192 c");
  EXPECT_EQ(data["cells"][1].size(), 2u);
  EXPECT_EQ(data["cells"][1][1][6], 2);
  EXPECT_EQ(data["modules"][data["cells"][2][1][1].get<size_t>()], "b");
  EXPECT_EQ(data["params"].size(), 2u) << "of the whole way";
}

TEST(DiffPage, ShowsHostileNamesAsText) {
  const std::string script = "</script><script>alert(1)</script>";
  ops::VersionsReport report = Whole(
      {Param("model.layers.0." + script, 1, 1), Param("\xff\x1b[31m.\xe2\x80\xae.0.w*.5", 1, 1),
       Param("l.0." + std::string(100'000, 'x'), 1, 1), Param("", 1, 1), Param("...", 1, 1)});
  report.whole.findings.push_back(
      artifact::Finding("only in a", "the parameter is only in A").of("<img src=x>\x07"));
  const std::string page = DiffPage({"a<b>/" + script, "\xff/b\n"}, report);
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("\x1b")));
  EXPECT_THAT(page, Not(HasSubstr("\xff")));
  EXPECT_THAT(page, HasSubstr("&lt;img src=x&gt;\\x07: the parameter is only in A"));
  EXPECT_LT(page.size(), 100'000u);
  const std::vector<std::string> names = ParamNames(DataOf(page));
  EXPECT_EQ(names.size(), 5u);
  EXPECT_THAT(names, ::testing::Contains("model.layers.0." + script));
  EXPECT_THAT(names, ::testing::Contains("\\xff\\x1b[31m.\\xe2\\x80\\xae.0.w*.5"));
  EXPECT_THAT(names, ::testing::Contains(::testing::AllOf(::testing::StartsWith("l.0.xxx"),
                                                          HasSubstr("xxx...xxx"))));
}

// The text of the card with this label; "" without one.
std::string CardOf(const std::string& page, const std::string& label) {
  const std::string begin = "<span>" + label + "</span><b>";
  const size_t at = page.find(begin);
  if (at == page.npos) return "";
  return page.substr(at + begin.size(), page.find("</b>", at) - at - begin.size());
}

std::string TitleOf(const std::string& page) {
  const size_t at = page.find("<h1>") + 4;
  return page.substr(at, page.find("</h1>") - at);
}

TEST(DiffPage, LabelsAreThePartsOfPathsThatDiffer) {
  const ops::VersionsReport report = Whole({Param("l.0.a", 1, 1)});
  const std::string end = "/global_step_100/actor/huggingface";
  const std::string a = "/data/checkpoints/easy_r1/experiment_alpha" + end;
  const std::string b = "/data/checkpoints/easy_r1/experiment_beta" + end + "/";
  std::string page = DiffPage({a, b}, report);
  EXPECT_EQ(TitleOf(page), "ckpt-diff: experiment_alpha \u2192 experiment_beta");
  EXPECT_EQ(CardOf(page, "A (hf)"), "experiment_alpha");
  EXPECT_EQ(CardOf(page, "B (hf)"), "experiment_beta");
  EXPECT_THAT(page, HasSubstr("actor/<wbr>huggingface</td>")) << "the whole path";
  EXPECT_EQ(TitleOf(DiffPage({"run", "run/x"}, report)), "ckpt-diff: run \u2192 run/x");
  EXPECT_EQ(TitleOf(DiffPage({"/", "/a"}, report)), "ckpt-diff: / \u2192 /a");
  EXPECT_EQ(TitleOf(DiffPage({"m/a", "m/a"}, report)), "ckpt-diff: a \u2192 a");
}

TEST(DiffPage, LabelsOfLongNamesDiffer) {
  const ops::VersionsReport report = Whole({Param("l.0.a", 1, 1)});
  const std::string x(100, 'x');
  const std::string page = DiffPage({"r/" + x + "1" + x, "r/" + x + "2" + x}, report);
  EXPECT_NE(CardOf(page, "A (hf)"), CardOf(page, "B (hf)"));
  const std::string label = DataOf(page)["steps"][0]["label"];
  EXPECT_THAT(label, HasSubstr("1"));
  EXPECT_THAT(label, HasSubstr("2"));
}

size_t CountIn(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++count;
  return count;
}

std::vector<artifact::Finding> OnlyInA(int count) {
  std::vector<artifact::Finding> findings;
  for (int i = 0; i < count; ++i)
    findings.push_back(artifact::Finding("only in a", "the parameter is only in A")
                           .of(fmt::format("lost.{}.", i)));
  return findings;
}

TEST(DiffPage, ShowsFiveFindingsAndFoldsTheOthers) {
  ops::VersionsReport report = Whole({Param("l.0.a", 1, 1)});
  report.whole.findings = OnlyInA(5);
  EXPECT_THAT(DiffPage({"a", "b"}, report), Not(HasSubstr("<details")));
  report.whole.findings = OnlyInA(300);
  const std::string page = DiffPage({"a", "b"}, report);
  const size_t folded = page.find("<details><summary>295 more findings</summary>");
  ASSERT_NE(folded, page.npos);
  EXPECT_EQ(CountIn(page.substr(0, folded), "<li>"), 5u);
  EXPECT_EQ(CountIn(page, "<li>"), 300u);
  report.whole.findings = OnlyInA(400);
  EXPECT_THAT(DiffPage({"a", "b"}, report), HasSubstr("... and 100 more, which"));
}

TEST(DiffPage, DoesNotRepeatAFindingForEachStep) {
  ops::VersionsReport report = Whole({Param("l.0.a", 1, 1)});
  report.whole.findings = OnlyInA(2);
  report.steps = {report.whole, report.whole};
  report.steps[1].findings = OnlyInA(3);
  const std::string page = DiffPage({"a", "b", "c"}, report);
  EXPECT_EQ(CountIn(page, "lost.0."), 1u);
  EXPECT_EQ(CountIn(page, "<li>"), 3u);
  EXPECT_THAT(page, HasSubstr("<li>b \u2192 c: lost.2.: the parameter is only in A</li>"));
}

TEST(DiffPage, CountsNaNAtTheTop) {
  ops::ParamDiff broken = Param("l.1.a", 1, 1);
  broken.tally.nan = 1'000;
  broken.tally.infinite = 234;
  const std::string page = DiffPage({"a", "b"}, Whole({Param("l.0.a", 1, 1), broken}));
  EXPECT_EQ(CardOf(page, "NaN or infinite"), "1,234");
  ops::VersionsReport report = Whole({Param("l.0.a", 1, 1)});
  EXPECT_EQ(CardOf(DiffPage({"a", "b"}, report), "NaN or infinite"), "");
  EXPECT_THAT(DiffPage({"a", "b"}, report), HasSubstr("leave out values")) << "equal ones too";
  EXPECT_THAT(DiffPage({"a", "b"}, Whole({})), Not(HasSubstr("leave out values")));
}

TEST(DiffPage, AWeightMovedMostNotTheOptimizersState) {
  ops::ParamDiff state = Param("l.0.a/exp_avg", 1e-6, 0.5);
  state.is_state = true;
  const std::vector<ops::ParamDiff> weights = {Param("l.0.a", 2, 1), Param("l.1.a", 3, 1)};
  ops::VersionsReport report = Whole(weights);
  EXPECT_THAT(DiffPage({"a", "b"}, report), Not(HasSubstr("of the weights alone")));
  report.whole.params.insert(report.whole.params.begin(), state);
  const std::string page = DiffPage({"a", "b"}, report);
  EXPECT_EQ(CardOf(page, "moved most"), "l.0.a");
  EXPECT_THAT(page, HasSubstr("the heat map are of the weights alone"));
}

// Numbers of all sizes and signs of exponents, so that none is shorter than usual.
ops::ParamDiff Measured(const std::string& name, int i) {
  ops::ParamDiff param = Param(name, 1.234567 * i + 0.1, std::pow(1.0173, -i % 700) / 3);
  param.tally.elements = 1'000'000;
  param.tally.changed = 123'457 + static_cast<uint64_t>(i);
  param.tally.sum_rel = param.tally.sum_abs / 7;
  param.tally.max_rel = param.tally.max_abs / 7;
  return param;
}

std::vector<ops::ParamDiff> ManyExperts(int layers, int experts) {
  std::vector<ops::ParamDiff> params;
  for (int l = 0; l < layers; ++l)
    for (int e = 0; e < experts; ++e)
      for (const char* name : {"gate_proj", "up_proj", "down_proj"})
        params.push_back(
            Measured(fmt::format("model.layers.{}.mlp.experts.{}.{}.weight", l, e, name),
                     static_cast<int>(params.size())));
  return params;
}

TEST(DiffPage, OfFiftyThousandParametersIsBelowFiveMegabytes) {
  ops::VersionsReport report = Whole(ManyExperts(131, 128));
  ASSERT_GT(report.whole.params.size(), 50'000u);
  const std::string page = DiffPage({"a", "b"}, report);
  EXPECT_LT(page.size(), 5'000'000u);
  EXPECT_EQ(DataOf(page)["params"].size(), report.whole.params.size()) << "all fit";
  EXPECT_THAT(page, Not(HasSubstr("heat-left-out")));
}

TEST(DiffPage, StatesWhatItLeavesOut) {
  ops::VersionsReport report = Whole(ManyExperts(40, 30));
  const ops::DiffReport step = ReportOf(ManyExperts(40, 30));
  report.steps.assign(1000, step);
  const std::vector<std::string> paths(1001, "v");
  const std::string page = DiffPage(paths, report, 200'000);
  EXPECT_LT(page.size(), 201'000u);
  const Json data = DataOf(page);
  EXPECT_EQ(data["cells"][0].size(), 120u) << "the map of the whole way comes first";
  EXPECT_GT(data["steps"].size(), 10u);
  EXPECT_LT(data["steps"].size(), 1000u);
  EXPECT_THAT(page, HasSubstr(fmt::format("leaves out {} steps, ", 1001 - data["steps"].size())));
  EXPECT_THAT(page, HasSubstr(" parameters that moved least. ckpt-diff --json has all."));
  ASSERT_GT(data["params"].size(), 10u);
  EXPECT_LT(data["params"].size(), 3600u);
}

// Names that share nothing.
TEST(DiffPage, OfUnrelatedLongNamesIsBelowFiveMegabytes) {
  std::vector<ops::ParamDiff> params;
  for (int i = 0; i < 50'000; ++i)
    params.push_back(Measured(fmt::format("{}<<<<<.{}.{}", std::string(300, 'x'), i, i), i));
  const std::string page = DiffPage({"a", "b"}, Whole(std::move(params)));
  EXPECT_LT(page.size(), 5'000'000u);
  EXPECT_THAT(page, HasSubstr("leaves out"));
  const Json data = DataOf(page);
  EXPECT_GT(data["params"].size(), 1000u);
  EXPECT_GT(data["steps"][0]["layers"].size(), 1000u);
}

}  // namespace
}  // namespace nxdkit::tool
