#include "trainer/report/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <regex>

#include "tests/lib/expect_error.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing_util::TempFolder;
using testing_util::WriteText;

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Every opened element is closed, in order; void elements aside.
void ExpectBalanced(const std::string& html) {
  const std::regex tag("<(/?)([a-zA-Z0-9]+)([^>]*?)(/?)>");
  std::vector<std::string> open;
  const std::string body = std::regex_replace(html, std::regex("<style>[^<]*</style>"), "");
  for (std::sregex_iterator it(body.begin(), body.end(), tag), end; it != end; ++it) {
    const std::string name = (*it)[2];
    if (name == "meta" || name == "wbr" || name == "input" || name == "br" || (*it)[4] == "/")
      continue;
    if ((*it)[1] == "/") {
      ASSERT_FALSE(open.empty()) << "</" << name << "> closes nothing";
      ASSERT_EQ(open.back(), name);
      open.pop_back();
    } else {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty()) << open.back() << " stays open";
}

std::string FullLog(int steps) {
  std::string text;
  for (int step = 1; step <= steps; ++step) {
    const double t = step;
    MetricRecord record = {{"actor/grad_norm", 0.2 + 0.05 * std::sin(t)},
                           {"actor/kl_loss", 0.001 * t},
                           {"actor/lr", 1e-5},
                           {"actor/pg_loss", 0.01 * std::cos(t)},
                           {"actor/ppo_kl", 0.0002 * t},
                           {"perf/cpu_memory_used_gb", 12.5 + 0.01 * t},
                           {"perf/throughput", 900 + 20 * std::sin(t / 3)},
                           {"perf/time_per_step", 40},
                           {"perf/total_num_tokens", 250000},
                           {"response_length/clip_ratio", 0.1},
                           {"response_length/max", 1024},
                           {"response_length/mean", 400 + 3 * t},
                           {"response_length/min", 20},
                           {"reward/accuracy", 0.3 + 0.5 * t / steps},
                           {"reward/overall", 0.35 + 0.5 * t / steps},
                           {"timing_s/gen", 22 + std::sin(t)},
                           {"timing_s/old", 4},
                           {"timing_s/ref", 4},
                           {"timing_s/step", 40},
                           {"timing_s/update_actor", 10}};
    if (step % 5 == 0) record.emplace_back("val/reward_score", 0.4 + 0.3 * t / steps);
    text += MetricLine(step, record);
  }
  return text;
}

void WriteRun(const TempFolder& folder, const std::string& log) {
  for (const char* name : {"attempts", "running_log"})
    std::filesystem::create_directories(folder / name);
  WriteText(folder / "experiment_log.jsonl", log);
  WriteText(folder / "experiment_config.json",
            "{\"trainer\": {\"project_name\": \"easy_r1\", \"experiment_name\": \"demo\"}, "
            "\"data\": {\"seed\": 1, \"list\": [1, \"a\"]}}");
  WriteText(
      folder / "generations.jsonl",
      GenerationLine(5, {"What is 1 + 1?", "<think>one and one</think>\n\\boxed{2}", "2", 1}) +
          GenerationLine(10, {"What is 2 + 2?", "<think>two</think>\n\\boxed{4}", "4", 1}));
}

// The text of a row at the top of the page.
std::string FactIn(const std::string& html, const std::string& name) {
  const std::regex row("<tr><th scope=\"row\">" + name + "</th><td>([^<]*)</td></tr>");
  std::smatch found;
  return std::regex_search(html, found, row) ? found[1].str() : "";
}

std::string PageOf(const RunFiles& run) { return HtmlReport({{run, BillOf(run, std::nullopt)}}); }

std::string Report(const TempFolder& folder) {
  const Result<RunFiles> run = ReadRunFiles(folder.path());
  if (run.ok()) return PageOf(*run);
  ADD_FAILURE() << run.error().ToString();
  return "";
}

TEST(HtmlReport, ShowsTheRun) {
  const TempFolder folder;
  WriteRun(folder, FullLog(50));
  const std::string html = Report(folder);
  // To look at it: NXDKIT_REPORT_SAMPLE=page.html test_trainer_report
  if (const char* path = std::getenv("NXDKIT_REPORT_SAMPLE")) WriteText(path, html);
  ExpectBalanced(html);
  EXPECT_THAT(html, HasSubstr("<h1>easy_r1 / demo</h1>"));
  for (const char* title : {"Reward", "Validation", "Response length", "KL", "Gradient norm",
                            "Throughput", "Memory", "Time of a step"})
    EXPECT_THAT(html, HasSubstr(std::string("<b>") + title + "</b>"));
  EXPECT_THAT(html, HasSubstr("<span>training time</span><b>33:20</b>"));
  EXPECT_THAT(
      html,
      HasSubstr(
          "<h2>Cost</h2>\n<table class=\"data\">\n<tr><th scope=\"row\">so far</th><td>12.5 M "
          "tokens in 33 min "));
  EXPECT_THAT(
      html,
      HasSubstr("<th scope=\"row\">rate</th><td>40 s and 250 k tokens a step, 6.25 k tokens a "
                "second, the median of 20 steps</td>"));
  EXPECT_THAT(html, HasSubstr("<title>reward/overall, step 50: 0.8500</title>"));
  EXPECT_THAT(html, HasSubstr("</svg>reward/<wbr>overall</td><td>0.3600</td><td>0.8500</td>"
                              "<td>0.8500</td>"));
  EXPECT_THAT(html, HasSubstr("<details open><summary>Step 10 (the last), 1 of 1 sample"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">data.<wbr>seed</th><td>1</td>"));
  EXPECT_THAT(html, Not(HasSubstr("class=\"problems\"")));
  EXPECT_EQ(Count(html, "timing_s/<wbr>step</td>"), 1u) << "the whole is no part of the stack";
}

// The parts of a sync are not in the stack of a step: they are within gen.
TEST(HtmlReport, ShowsEachSync) {
  const TempFolder folder;
  std::string log;
  for (int64_t step = 1; step <= 3; ++step)
    log += MetricLine(step, {{"rollout/log_prob_gap_mean", 0.002 * static_cast<double>(step)},
                             {"sync/not_covered", 0},
                             {"sync/proved", 19},
                             {"sync/serial", static_cast<double>(step)},
                             {"timing_s/gen", 2},
                             {"timing_s/step", 3},
                             {"timing_s/sync_check", 0.25},
                             {"timing_s/sync_reload", 0.5}});
  WriteRun(folder, log);
  const std::string html = Report(folder);
  ExpectBalanced(html);
  EXPECT_THAT(html, HasSubstr("<b>Weight sync</b>"));
  EXPECT_THAT(html, HasSubstr("<tr><th scope=\"row\">sync/<wbr>proved</th><td>19</td></tr>"))
      << "constant";
  EXPECT_THAT(html, HasSubstr("<th scope=\"col\">check, s</th><th scope=\"col\">reload, s</th>"));
  EXPECT_THAT(html, HasSubstr("<tr><td>2</td><td>2</td><td>19</td><td>0</td><td>0.0040</td>"
                              "<td>0.2500</td><td>0.5000</td></tr>"));
  const size_t stack = html.find("<b>Time of a step</b>");
  EXPECT_THAT(html.substr(stack, html.find("<b>Weight sync</b>") - stack),
              Not(HasSubstr("sync_reload")));
}

TEST(HtmlReport, ShowsTheLastOfManySyncs) {
  const TempFolder folder;
  std::string log;
  for (int64_t step = 1; step <= 1200; ++step)
    log += MetricLine(step, {{"sync/serial", static_cast<double>(step)}});
  WriteRun(folder, log);
  const std::string html = Report(folder);
  EXPECT_THAT(html, HasSubstr("<summary>The last 500 of 1,200 weight syncs</summary>"));
  EXPECT_THAT(html, HasSubstr("<tr><td>1200</td><td>1200</td>"));
  EXPECT_THAT(html, Not(HasSubstr("<tr><td>700</td><td>700</td>")));
}

// Names break after "/" and ".", never within a word.
TEST(HtmlReport, NamesAreWhole) {
  const TempFolder folder;
  WriteRun(folder, FullLog(3));
  const std::string html = Report(folder);
  EXPECT_THAT(html, HasSubstr("<td title=\"reward/accuracy\">"));
  EXPECT_THAT(html, HasSubstr("</svg>reward/<wbr>accuracy</td>"));
  const size_t style = html.find(".legend td");
  EXPECT_THAT(html.substr(style, html.find(".data", style) - style), Not(HasSubstr("anywhere")));
}

TEST(HtmlReport, MinAndMaxAreABandAroundTheMean) {
  const TempFolder folder;
  WriteRun(folder, FullLog(4));
  const std::string html = Report(folder);
  EXPECT_EQ(Count(html, "<path class=\"band f0\""), 1u);
  EXPECT_EQ(Count(html, "<title>response_length/min"), 0u) << "no line of its own";
  for (const char* name : {"mean", "max", "min"})
    EXPECT_THAT(html, HasSubstr(std::string("title=\"response_length/") + name + "\""));
}

// A value that stays the same in all steps, two or more, is a row of a table.
TEST(HtmlReport, ConstantCurvesAreATable) {
  const TempFolder folder;
  WriteRun(folder, FullLog(5));
  const std::string html = Report(folder);
  EXPECT_THAT(html, HasSubstr("<summary>2 constant metrics</summary>"));
  EXPECT_THAT(html, HasSubstr("<tr><th scope=\"row\">actor/<wbr>lr</th><td>1.0e-05</td></tr>"));
  EXPECT_THAT(
      html,
      HasSubstr("<tr><th scope=\"row\">response_length/<wbr>clip_ratio</th><td>0.1000</td></tr>"));
  EXPECT_THAT(html, Not(HasSubstr("<b>Learning rate</b>")));
  WriteRun(folder, FullLog(1));
  EXPECT_THAT(Report(folder), HasSubstr("<b>Learning rate</b>"));
}

TEST(HtmlReport, EqualCurvesAreToldApart) {
  const TempFolder folder;
  std::string log;
  for (int64_t step = 1; step <= 3; ++step)
    log += MetricLine(step, {{"reward/accuracy", 0.25 * static_cast<double>(step)},
                             {"reward/overall", 0.25 * static_cast<double>(step)}});
  WriteRun(folder, log);
  const std::string html = Report(folder);
  for (const char* line :
       {"class=\"line s0 shared\" stroke-dasharray=\"8.00 8.00\" stroke-dashoffset=\"-0.00\"",
        "class=\"line s1 shared\" stroke-dasharray=\"8.00 8.00\" stroke-dashoffset=\"-8.00\""})
    EXPECT_EQ(Count(html, line), 2u) << "the curve and its legend";
  EXPECT_THAT(html, HasSubstr("reward/<wbr>overall <small>= reward/<wbr>accuracy</small>"));
}

// The label of the box says how; without noise there is none.
TEST(HtmlReport, LongNoisyCurvesAreSmoothed) {
  const TempFolder folder;
  WriteRun(folder, FullLog(200));
  const std::string html = Report(folder);
  ExpectBalanced(html);
  EXPECT_THAT(html, HasSubstr("<input type=\"checkbox\" id=\"smooth\" checked>"
                              "<label for=\"smooth\">Smooth noisy curves of 50 values and more: "
                              "exponential moving average, effective window 10 values;"));
  EXPECT_THAT(html, HasSubstr(" smooth\" d="));
  WriteRun(folder, FullLog(20));
  EXPECT_THAT(Report(folder), Not(HasSubstr("id=\"smooth\"")));
}

TEST(HtmlReport, BeginsWithTheFactsThatTheFilesHold) {
  const TempFolder folder;
  WriteRun(folder, FullLog(2));
  EXPECT_THAT(Report(folder), Not(HasSubstr(">host</th>"))) << "nothing is invented";
  EXPECT_THAT(Report(folder), Not(HasSubstr(">started</th>")));
  WriteText(folder / "experiment_config.json",
            "{\"trainer\": {\"nnodes\": 2}, \"worker\": {\"actor\": {\"model\": "
            "{\"model_path\": \"models/qwen3\"}}}}");
  WriteText(folder / "attempts/9", "{\"host\": \"old\"}");
  WriteText(folder / "attempts/10", "{\"host\": \"trn-7\", \"process\": 5}");
  WriteText(folder / "running_log/trainer.log",
            "2026-11-21T12:05:09Z grpo-train 0.1.0 begins, process 7: --config a\n"
            "2026-11-21T12:06:00Z step 1/50  gen\n"
            "2026-11-22T08:00:00Z grpo-train 0.2.0 begins, process 5: --config a\n"
            "2026-11-22T08:10:30Z 2 steps done\n");
  const std::string html = Report(folder);
  for (const auto& [name, value] : {std::pair("model", "models/qwen3"),
                                    {"host", "trn-7, the first of 2 nodes"},
                                    {"nxdkit", "0.2.0"},
                                    {"started", "2026-11-21 12:05:09 UTC"},
                                    {"last line of the log", "2026-11-22 08:10:30 UTC"}})
    EXPECT_THAT(html, HasSubstr("<tr><th scope=\"row\">" + std::string(name) + "</th><td>" + value +
                                "</td>"));
  EXPECT_EQ(html, Report(folder)) << "the same bytes";
}

// The key says gb, and the value counts 2^30 bytes.
TEST(HtmlReport, UnitsAreThoseOfTheKeys) {
  const TempFolder folder;
  std::string log;
  for (int64_t step = 1; step <= 2; ++step)
    log += MetricLine(step, {{"perf/cpu_memory_used_gb", static_cast<double>(step)},
                             {"response_length/clip_ratio", 0.5},
                             {"timing_per_token_ms/gen", 0.25},
                             {"timing_per_token_ms/ref", 0.25},
                             {"timing_s/gen", 2}});
  WriteRun(folder, log);
  const std::string html = Report(folder);
  EXPECT_THAT(html, HasSubstr("<b>Memory</b> <small>GB as EasyR1 counts them, 2^30 bytes: "));
  EXPECT_THAT(html, Not(HasSubstr("GiB")));
  for (const char* row : {"cpu_memory_used_gb</td><td>2^30 bytes<", "clip_ratio</td><td>share<",
                          "ms/<wbr>gen</td><td>ms per response token<",
                          "ms/<wbr>ref</td><td>ms per token<", "timing_s/<wbr>gen</td><td>s<"})
    EXPECT_THAT(html, HasSubstr(row));
}

// Not behind a click.
TEST(HtmlReport, SamplesShowTheirPrompt) {
  const TempFolder folder;
  WriteRun(folder, FullLog(3));
  const std::string html = Report(folder);
  EXPECT_THAT(html, HasSubstr("<h2>Samples of the 2 steps</h2>"));
  EXPECT_THAT(html, HasSubstr("<article><pre class=\"prompt\">What is 1 + 1?</pre>"));
  EXPECT_THAT(html, HasSubstr("score <b>1</b>, expected <code>2</code></header>\n"
                              "<pre class=\"answer\">&lt;think&gt;one and one&lt;/think&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("<summary>prompt")));
}

// Neither a chart nor a row of a legend, but a row in the table of all metrics.
TEST(HtmlReport, WithoutDataThereIsNoChart) {
  const TempFolder folder;
  WriteText(folder / "experiment_log.jsonl",
            MetricLine(1, {{"actor/grad_norm", NAN}, {"actor/lr", 1e-5}, {"critic/lr", NAN}}));
  const std::string html = Report(folder);
  EXPECT_EQ(Count(html, "<figure>"), 1u);
  EXPECT_EQ(Count(html, "class=\"swatch\""), 1u);
  EXPECT_EQ(Count(html, "<svg"), 2u) << "the chart and the line of its legend";
  EXPECT_EQ(Count(html, "class=\"dot alone\""), 1u) << "the only step is seen";
  EXPECT_THAT(html, HasSubstr("<td>critic/<wbr>lr</td><td></td><td>1</td><td>-</td>"));
}

// A run that has diverged at once has metrics, though none to draw.
TEST(HtmlReport, MetricsWithoutAFiniteValueAreNamed) {
  const TempFolder folder;
  WriteRun(folder, MetricLine(1, {{"actor/grad_norm", INFINITY}, {"reward/overall", NAN}}) +
                       MetricLine(2, {{"actor/grad_norm", INFINITY}, {"reward/overall", NAN}}));
  std::string html = Report(folder);
  ExpectBalanced(html);
  EXPECT_THAT(html, HasSubstr("<h2>Curves</h2>\n<ul class=\"problems\">\n<li>No finite value: "
                              "actor/grad_norm, reward/overall</li>\n"));
  EXPECT_THAT(html, Not(HasSubstr("No metrics yet")));
  WriteRun(folder, MetricLine(1, {{"<b>", NAN}, {"reward/overall", 1}}));
  html = Report(folder);
  EXPECT_THAT(html, HasSubstr("<li>No finite value: &lt;b&gt;</li>\n"));
  EXPECT_EQ(Count(html, "<figure>"), 1u);
  WriteRun(folder, MetricLine(1, {{"reward/overall", 1}}));
  EXPECT_THAT(Report(folder), Not(HasSubstr("No finite value")));
}

TEST(HtmlReport, SaysWhyThereIsNoCurve) {
  const TempFolder folder;
  WriteRun(folder, "");
  EXPECT_THAT(Report(folder), HasSubstr("<p>No metrics yet.</p>"));
  for (const char* name : {"other/metric", "actor/lr"}) {
    WriteRun(folder, MetricLine(1, {{name, 1e-5}}) + MetricLine(2, {{name, 1e-5}}));
    EXPECT_THAT(Report(folder), HasSubstr("<p>Nothing to draw: all metrics are in the tables "
                                          "below.</p>"));
    EXPECT_THAT(Report(folder), Not(HasSubstr("No metrics yet")));
  }
}

// A log alone does not show whether its run has ended.
TEST(HtmlReport, SaysWhetherTheRunHasFinished) {
  const TempFolder folder;
  WriteRun(folder, FullLog(8));
  EXPECT_THAT(Report(folder), Not(HasSubstr(">state<")));
  WriteText(folder / "attempts/1", "{\"host\": \"a\"}");
  EXPECT_EQ(FactIn(Report(folder), "state"), "not finished");
  WriteText(folder / "running_log/trainer.log",
            "2026-11-21T12:05:09Z grpo-train 0.1.0 begins, process 7: --config a\n");
  EXPECT_EQ(FactIn(Report(folder), "state"), "not finished, 1 attempt");
  WriteText(folder / "running_log/trainer.log",
            "2026-11-21T12:05:09Z grpo-train 0.1.0 begins, process 7: --config a\n"
            "2026-11-21T12:06:00Z step 1/8  gen\n"
            "2026-11-22T08:00:00Z grpo-train 0.1.0 begins, process 5: --config a\n");
  EXPECT_EQ(FactIn(Report(folder), "state"), "not finished, 2 attempts");
  WriteText(folder / "DONE", "{\"attempt\":2,\"step\":8}\n");
  EXPECT_EQ(FactIn(Report(folder), "state"), "finished at step 8, 2 attempts");
}

// Readers of the screen hear which chart it is, and what it shows.
TEST(HtmlReport, EachChartHasALabelOfItsOwn) {
  const TempFolder folder;
  WriteRun(folder, FullLog(5));
  const std::string html = Report(folder);
  EXPECT_THAT(html, HasSubstr("aria-label=\"Reward: reward/accuracy, reward/overall\""));
  EXPECT_THAT(html, HasSubstr("aria-label=\"Response length: response_length/mean\""));
  EXPECT_THAT(html, HasSubstr("aria-label=\"Time of a step: timing_s/gen, timing_s/old, "
                              "timing_s/ref, timing_s/update_actor\""));
}

TEST(HtmlReport, NeedsNothingFromElsewhere) {
  const TempFolder folder;
  WriteRun(folder, FullLog(3));
  const std::string html = Report(folder);
  for (const char* part :
       {"http:", "https:", "src=", "href=", "<script", "<link", "url(", "@import"})
    EXPECT_THAT(html, Not(HasSubstr(part)));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme: dark"));
}

// Names, samples, settings and the folder may contain anything.
TEST(HtmlReport, WhateverStandsInTheFilesIsText) {
  const TempFolder folder;
  for (const char* name : {"attempts", "running_log"})
    std::filesystem::create_directories(folder / name);
  const std::string evil = "<script>alert('x')</script>\"&\x1b[31m\xff";
  WriteText(folder / "experiment_log.jsonl",
            "{\"step\": 1, \"reward\": {\"<script>alert(1)</script>\": 1}}\n");
  WriteText(folder / "generations.jsonl", GenerationLine(1, {evil, evil, evil, 0}));
  WriteText(folder / "experiment_config.json",
            "{\"trainer\": {\"project_name\": \"<script>alert(2)</script>\"}, "
            "\"worker\": {\"actor\": {\"model\": {\"model_path\": \"\\\"<script>\\u202e\"}}}, "
            "\"<script>\": \"</td><script>\"}");
  WriteText(folder / "attempts/1", "{\"host\": \"<script>h\\u0007</script>\"}");
  WriteText(folder / "running_log/trainer.log",
            "2026-11-21T12:00:00Z grpo-train <script>0\x1b begins, process 7: x\n");
  const std::string html = Report(folder);
  ExpectBalanced(html);
  EXPECT_EQ(Count(html, "<script"), 0u);
  EXPECT_THAT(html,
              HasSubstr("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;\\x1b[31m"));
  EXPECT_THAT(html, HasSubstr("<td>&quot;&lt;script&gt;\\xe2\\x80\\xae</td>")) << "the model";
  EXPECT_THAT(html, HasSubstr("<td>&lt;script&gt;h\\x07&lt;/script&gt;</td>")) << "the host";
  EXPECT_THAT(html, HasSubstr("<td>&lt;script&gt;0\\x1b</td>")) << "the version";
}

TEST(HtmlReport, DamagedLogsAreShownAsFarAsTheyGo) {
  const TempFolder folder;
  const std::string log = FullLog(8);
  WriteRun(folder, "garbage\n" + log.substr(0, log.size() - 20));
  const std::string html = Report(folder);
  ExpectBalanced(html);
  EXPECT_THAT(html, HasSubstr("experiment_log.jsonl: 2 damaged lines skipped"));
  EXPECT_THAT(html, HasSubstr("<span>last step</span><b>7</b>"));
}

// DONE holds the last step of a run that has ended.
TEST(HtmlReport, ALogThatEndsTooEarlyIsAProblem) {
  const TempFolder folder;
  WriteRun(folder, FullLog(8));
  WriteText(folder / "DONE", "{\"attempt\":1,\"step\":8}\n");
  EXPECT_THAT(Report(folder), Not(HasSubstr("class=\"problems\"")));
  WriteText(folder / "experiment_log.jsonl", FullLog(5));
  EXPECT_THAT(Report(folder),
              HasSubstr("<li>experiment_log.jsonl ends at step 5, but the run ended "
                        "at step 8</li>"));
  WriteText(folder / "experiment_log.jsonl", "");
  EXPECT_THAT(Report(folder), HasSubstr("<li>experiment_log.jsonl holds no step, but the run ended "
                                        "at step 8</li>"));
  std::filesystem::remove(folder / "DONE");
  EXPECT_THAT(Report(folder), Not(HasSubstr("class=\"problems\""))) << "it may just have begun";
  WriteText(folder / "experiment_config.json", "");
  EXPECT_THAT(Report(folder), HasSubstr("<li>experiment_config.json is empty</li>"));
}

TEST(HtmlReport, ARunThatHasEndedHasNothingLeft) {
  const TempFolder folder;
  WriteRun(folder, FullLog(8));
  for (const auto& [steps, left] : {std::pair("9", true), {"8", false}}) {
    WriteText(folder / "experiment_config.json",
              "{\"trainer\": {\"max_steps\": " + std::string(steps) + "}}");
    const std::string html = Report(folder);
    EXPECT_EQ(Count(html, "to the end</th><td>1 of 9 steps: "), left ? 1u : 0u);
    EXPECT_EQ(Count(html, "to the end</th>"), left ? 1u : 0u);
  }
  WriteText(folder / "experiment_log.jsonl", "");
  EXPECT_THAT(Report(folder),
              HasSubstr("<td>8 of 8 steps remain; time unknown, no step was measured</td>"));
  WriteText(folder / "DONE", "{\"step\": 8}");
  EXPECT_THAT(Report(folder), Not(HasSubstr("to the end</th>")));
}

TEST(HtmlReport, EverySingleFileIsEnough) {
  for (const char* name : {"experiment_log.jsonl", "experiment_config.json", "generations.jsonl"}) {
    SCOPED_TRACE(name);
    const TempFolder whole;
    WriteRun(whole, FullLog(2));
    const TempFolder folder;
    WriteText(folder / name, testing_util::ReadText(whole / name));
    const std::string html = Report(folder);
    ExpectBalanced(html);
    EXPECT_EQ(Count(html, " is missing</li>"), 2u);
  }
}

TEST(HtmlReport, AnyCutOfTheFilesStillMakesAPage) {
  const TempFolder whole;
  WriteRun(whole, FullLog(2));
  const std::string log = testing_util::ReadText(whole / "experiment_log.jsonl");
  const std::string config = testing_util::ReadText(whole / "experiment_config.json");
  const std::string samples = testing_util::ReadText(whole / "generations.jsonl");
  for (size_t cut = 0; cut < log.size(); cut += 37) {
    const TempFolder folder;
    WriteText(folder / "experiment_log.jsonl", log.substr(0, log.size() - cut));
    WriteText(folder / "experiment_config.json",
              config.substr(0, config.size() - std::min(config.size(), cut / 8 + 1)));
    WriteText(folder / "generations.jsonl",
              samples.substr(0, samples.size() - std::min(samples.size(), cut / 4)));
    const Result<RunFiles> run = ReadRunFiles(folder.path());
    if (run.ok()) ExpectBalanced(PageOf(*run));
    EXPECT_TRUE(run.ok() || run.error().code() == Errc::kNotFound);
  }
}

TEST(HtmlReport, LongTextsAndManySamplesAreCut) {
  const TempFolder folder;
  std::string samples;
  for (int step = 1; step <= 30; ++step)
    for (int i = 0; i < 25; ++i)
      samples += GenerationLine(step, {"p", std::string(20000, 'x'), "t", 0});
  WriteText(folder / "generations.jsonl", samples);
  const std::string html = Report(folder);
  EXPECT_EQ(Count(html, "<article>"), 200u);
  EXPECT_THAT(html, HasSubstr("<h2>Samples of the first step and the last 9 of 30 steps</h2>"));
  EXPECT_THAT(html, HasSubstr("Step 1 (the first), 20 of 25 samples"));
  EXPECT_THAT(html, HasSubstr("Step 22, 20 of 25 samples"));
  EXPECT_THAT(html, HasSubstr("Step 30 (the last), 20 of 25 samples"));
  EXPECT_THAT(html, Not(HasSubstr("Step 21, ")));
  EXPECT_THAT(html, HasSubstr(" ... 11808 more bytes"));
  EXPECT_LT(html.size(), 2'000'000u);
}

}  // namespace
}  // namespace nxdkit::trainer
