// The report of several runs: next to each other on one page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tests/lib/temp_folder.h"
#include "trainer/report/html.h"

namespace nxdkit::trainer {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_util::TempFolder;
using testing_util::WriteText;

struct RunKind {
  std::string name;
  double factor = 1;  // of its rewards
  int steps = 4;
  std::vector<int64_t> sampled = {0, 4};
  std::string lr = "0.001";
};

void WriteRunOf(const std::string& folder, const RunKind& kind) {
  std::filesystem::create_directories(folder);
  std::string log;
  for (int step = 1; step <= kind.steps; ++step)
    log += MetricLine(step, {{"actor/lr", 1e-5 * kind.factor},
                             {"perf/total_num_tokens", 1000 * kind.factor},
                             {"reward/accuracy", 0.1 * step * kind.factor},
                             {"reward/overall", 0.1 * step * kind.factor},
                             {"rollout/kl", 0.5},
                             {"timing_s/gen", 2 * kind.factor},
                             {"timing_s/step", 3 * kind.factor}});
  WriteText(folder + "/experiment_log.jsonl", log);
  WriteText(folder + "/experiment_config.json",
            "{\"trainer\": {\"project_name\": \"p\", \"experiment_name\": \"" + kind.name +
                "\"}, \"data\": {\"seed\": 1}, \"optim\": {\"lr\": " + kind.lr + "}}");
  std::string samples;
  int count = 0;
  for (const int64_t step : kind.sampled)
    for (const char* prompt : {"1+1=", "1+1=", "2+2="})
      samples += GenerationLine(
          step, {prompt, kind.name + " says " + std::to_string(count++), "2", kind.factor});
  WriteText(folder + "/generations.jsonl", samples);
}

std::string PageOfRuns(const std::vector<std::string>& folders) {
  std::vector<ReportedRun> runs;
  for (const std::string& folder : folders) {
    const Result<RunFiles> run = ReadRunFiles(folder);
    EXPECT_TRUE(run.ok()) << run.error().ToString();
    if (run.ok()) runs.push_back({*run, BillOf(*run, std::nullopt)});
  }
  return HtmlReport(runs);
}

class TwoRuns : public ::testing::Test {
 protected:
  std::string Page(const RunKind& first, const RunKind& second) {
    WriteRunOf(folder_ / "one", first);
    WriteRunOf(folder_ / "two", second);
    return PageOfRuns({folder_ / "one", folder_ / "two"});
  }
  const TempFolder folder_;
};

std::string Between(const std::string& text, const std::string& from, const std::string& to) {
  const size_t begin = text.find(from);
  if (begin == text.npos) return "";
  return text.substr(begin, text.find(to, begin) - begin);
}

TEST_F(TwoRuns, ShareTheChartOfAMetric) {
  const std::string html = Page({.name = "slow"}, {.name = "fast", .factor = 2});
  EXPECT_THAT(html, HasSubstr("<h1>slow and fast</h1>"));
  EXPECT_THAT(html,
              HasSubstr("<tr><th scope=\"row\">folder</th><td>" + (folder_ / "one") + "</td><td>"));
  const std::string chart = Between(html, "<b>Reward</b>", "</figure>");
  EXPECT_THAT(chart, HasSubstr("<small>reward/accuracy = reward/overall: mean over"));
  EXPECT_THAT(chart, HasSubstr("<title>slow, step 4: 0.4000</title>"));
  EXPECT_THAT(chart, HasSubstr("<title>fast, step 4: 0.8000</title>"));
  EXPECT_THAT(chart, HasSubstr("<path class=\"line s1 d1\""));
  EXPECT_THAT(chart, HasSubstr("</svg>fast</td><td>0.2000</td><td>0.8000</td><td>0.8000</td>"));
  EXPECT_THAT(html, AllOf(HasSubstr("<b>Time of a step of slow</b>"),
                          HasSubstr("<b>Time of a step of fast</b>")));
  EXPECT_THAT(
      html,
      HasSubstr("<tr><th scope=\"row\">actor/<wbr>lr</th><td>1.0e-05</td><td>2.0e-05</td></tr>"))
      << "constant in both";
}

TEST_F(TwoRuns, DifferInTheirNumbers) {
  const std::string html = Page({.name = "slow"}, {.name = "fast", .factor = 2, .steps = 5});
  for (const char* row :
       {"<tr><th scope=\"row\">last step</th><td>4</td><td>5 <small>(+1)</small></td></tr>",
        "<tr><th scope=\"row\">reward</th><td>0.4000</td><td>1 <small>(+0.6000)</small></td></tr>",
        "<tr><th scope=\"row\">tokens</th><td>4 k</td><td>10 k <small>(+6 k)</small></td></tr>"})
    EXPECT_THAT(html, HasSubstr(row));
  EXPECT_THAT(Between(html, "<h2>Cost</h2>", "<h2>Curves"),
              AllOf(HasSubstr("<th scope=\"row\">so far</th><td>4 k tokens in 12 s</td>"
                              "<td>10 k tokens in 30 s</td>")));
}

TEST_F(TwoRuns, ThatAreEqualHaveNoDifferences) {
  const std::string html = Page({.name = "<small>"}, {.name = "b"});
  const std::string results = Between(html, "<h2>Results", "<h2>Configuration");
  EXPECT_THAT(results, HasSubstr("<tr><th scope=\"row\">tokens</th><td>4 k</td><td>4 k</td></tr>"));
  EXPECT_THAT(results, Not(AnyOf(HasSubstr("<small>"), HasSubstr("In brackets"))));
}

TEST_F(TwoRuns, DifferInSomeKeys) {
  const std::string html = Page({.name = "slow"}, {.name = "fast", .lr = "0.002"});
  const std::string section = Between(html, "<h2>Configuration</h2>", "<h2>Cost");
  EXPECT_THAT(section, HasSubstr("2 keys with different values, 2 with the same."));
  EXPECT_THAT(
      section,
      HasSubstr("<tr><th scope=\"row\">optim.<wbr>lr</th><td>0.001</td><td>0.002</td></tr>"));
  EXPECT_THAT(section, Not(HasSubstr("seed")));
  EXPECT_THAT(html, HasSubstr("<summary>Configuration of all runs, 2 keys</summary>"));
}

// Otherwise every key would differ.
TEST_F(TwoRuns, WithoutAConfigurationAreNotCompared) {
  Page({.name = "a"}, {.name = "b"});
  std::filesystem::remove(folder_ / "two/experiment_config.json");
  const std::string html = PageOfRuns({folder_ / "one", folder_ / "two"});
  EXPECT_THAT(html, HasSubstr("<p class=\"soft\">Not compared: two has none.</p>"));
  EXPECT_THAT(html, Not(HasSubstr("not set")));
}

// The second answer to a prompt stands with the other run's second.
TEST_F(TwoRuns, AnswerTheSamePrompts) {
  const std::string html =
      Page({.name = "a", .sampled = {0, 4, 8}}, {.name = "b", .sampled = {4, 0}});
  EXPECT_THAT(html, HasSubstr("<h2>Samples of the 2 steps that all runs have</h2>"));
  EXPECT_THAT(html, HasSubstr("Step 4 (the last), 3 of 3 prompts"));
  EXPECT_THAT(html, Not(HasSubstr("Step 8")));
  const std::string step = Between(html, "Step 0 (the first)", "Step 4");
  const size_t second = step.find("<article>", step.find("<article>") + 1);
  const std::string article = step.substr(second, step.find("</article>", second) - second);
  EXPECT_THAT(article, HasSubstr("<pre class=\"prompt\">1+1=</pre>"));
  EXPECT_THAT(article, HasSubstr(">a says 1<"));
  EXPECT_THAT(article, HasSubstr(">b says 4<"));
}

TEST_F(TwoRuns, AnEmptyAnswerIsSaidToBe) {
  Page({.name = "a"}, {.name = "b"});
  WriteText(folder_ / "two/generations.jsonl", GenerationLine(4, {"2+2=", "", "4", 0}));
  EXPECT_THAT(PageOfRuns({folder_ / "one", folder_ / "two"}),
              HasSubstr("<pre class=\"answer\"><i>empty</i></pre>"));
}

TEST_F(TwoRuns, WithoutACommonStepShowTheirOwn) {
  const std::string html = Page({.name = "a", .sampled = {3}}, {.name = "b", .sampled = {5}});
  EXPECT_THAT(html, HasSubstr("steps of the runs, which have none in common</h2>"));
  EXPECT_THAT(html, HasSubstr("b</header>no sample</div>"));
}

TEST_F(TwoRuns, HaveChartsWithLabelsOfTheirOwn) {
  const std::string html = Page({.name = "slow"}, {.name = "<fast>", .factor = 2});
  EXPECT_THAT(html, HasSubstr("aria-label=\"Reward: reward/accuracy = reward/overall of slow, "
                              "&lt;fast&gt;\""));
  EXPECT_THAT(html, AllOf(HasSubstr("aria-label=\"Time of a step of slow: timing_s/gen\""),
                          HasSubstr("aria-label=\"Time of a step of &lt;fast&gt;: "
                                    "timing_s/gen\"")));
}

// The chart has the other run's curve alone.
TEST_F(TwoRuns, AMetricWithoutAFiniteValueIsNamedWithItsRun) {
  Page({.name = "slow"}, {.name = "<fast>"});
  WriteText(folder_ / "two/experiment_log.jsonl", MetricLine(1, {{"reward/overall", NAN}}));
  const std::string html = PageOfRuns({folder_ / "one", folder_ / "two"});
  EXPECT_THAT(html, HasSubstr("<li>No finite value of &lt;fast&gt;: reward/overall</li>\n"));
  EXPECT_THAT(html, Not(HasSubstr("No finite value of slow")));
}

TEST_F(TwoRuns, ThatAreEqualAreSaidToBe) {
  const std::string html = Page({.name = "a"}, {.name = "b"});
  EXPECT_THAT(Between(html, "<b>Reward</b>", "</figure>"),
              HasSubstr("</svg>b <small>= a</small></td>"));
}

TEST_F(TwoRuns, HaveLabelsThatDiffer) {
  EXPECT_THAT(Page({.name = "same"}, {.name = "same"}), HasSubstr("<h1>one and two</h1>"));
  EXPECT_THAT(PageOfRuns({folder_ / "one", folder_ / "one"}), HasSubstr("/one (2)</h1>"));
  const std::string a(40, 'a');
  EXPECT_THAT(Page({.name = a + "x"}, {.name = a + "y"}),
              HasSubstr("<h1>aaaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaax and "
                        "aaaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaay</h1>"));
  EXPECT_THAT(Page({.name = a + "x" + a}, {.name = a + "y" + a}),
              HasSubstr("<h1>aaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaa (1) and "
                        "aaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaa (2)</h1>"));
}

TEST_F(TwoRuns, AreText) {
  const std::string evil = "<script>\\\"x\\\"\\u202e\\u0007</script>";
  const std::string html = Page({.name = evil}, {.name = evil + "2", .lr = "\"<script>\""});
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("\xe2\x80\xae")));
  EXPECT_THAT(html,
              HasSubstr("<h1>&lt;script&gt;&quot;x&quot;\\xe2\\x80\\xae\\x07&lt;/script&gt;"));
}

TEST_F(TwoRuns, TheirProblemsAreNamed) {
  Page({.name = "a"}, {.name = "b"});
  WriteText(folder_ / "two/experiment_log.jsonl", "damaged\n");
  EXPECT_THAT(PageOfRuns({folder_ / "one", folder_ / "two"}),
              HasSubstr("<li>b: experiment_log.jsonl: 1 damaged line skipped</li>"));
}

TEST(ManyRuns, EachHaveADashOfTheirOwn) {
  const TempFolder folder;
  std::vector<std::string> folders;
  for (size_t i = 0; i < kMostReported; ++i) {
    folders.push_back(folder / ("r" + std::to_string(i)));
    WriteRunOf(folders.back(),
               {.name = "r" + std::to_string(i), .factor = 1 + 0.1 * static_cast<double>(i)});
  }
  const std::string html = PageOfRuns(folders);
  EXPECT_THAT(html, HasSubstr("<h1>r0, r1, r2, r3, r4, r5, r6 and r7</h1>"));
  EXPECT_THAT(html, HasSubstr("class=\"line s7 d7\""));
}

}  // namespace
}  // namespace nxdkit::trainer
