#include "trainer/report/metric_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "tests/lib/expect_error.h"
#include "tests/lib/temp_folder.h"
#include "trainer/report/run_files.h"

namespace nxdkit::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_util::Exists;
using testing_util::ExpectError;
using testing_util::ReadText;
using testing_util::TempFolder;
using testing_util::WriteText;

TEST(MetricLine, IsNestedAsPythonWritesIt) {
  EXPECT_EQ(MetricLine(3, {{"actor/lr", 1e-5}, {"actor/pg_loss", 0.5}, {"reward/overall", 1}}),
            "{\"step\": 3, \"actor\": {\"lr\": 1e-05, \"pg_loss\": 0.5}, \"reward\": "
            "{\"overall\": 1.0}}\n");
  EXPECT_EQ(MetricLine(0, {}), "{\"step\": 0}\n");
  EXPECT_EQ(MetricLine(1, {{"a", std::nan("")}, {"b", -std::numeric_limits<double>::infinity()}}),
            "{\"step\": 1, \"a\": NaN, \"b\": -Infinity}\n");
}

// "a" cannot be a number and a group; no name is lost, and each reads back as itself.
TEST(MetricLine, NamesThatAreValueAndGroup) {
  const MetricRecord record = {{"a", 1}, {"a b", 5}, {"a/b", 2}, {"a/b/c", 3}, {"step", 4}};
  const std::string line = MetricLine(9, record);
  EXPECT_EQ(line,
            "{\"step\": 9, \"a\": 1.0, \"a b\": 5.0, \"/a/b\": 2.0, \"/a/b/c\": 3.0, "
            "\"/step\": 4.0}\n");
  const MetricSeries series = ParseMetrics(line);
  EXPECT_EQ(series.damaged, 0);
  for (const auto& [name, value] : record) {
    ASSERT_TRUE(series.by_name.contains(name)) << name;
    EXPECT_EQ(series.by_name.at(name)[0].value, value) << name;
    EXPECT_EQ(series.by_name.at(name)[0].step, 9);
  }
}

// A model's text may clear a screen, set a title, or overwrite the line before.
TEST(GenerationText, SendsNothingToATerminal) {
  EXPECT_EQ(GenerationText({"\x1b[2Jp", "a\tb\r\n\x1b]0;title\a\x7f",
                            "\xc2\x9b"
                            "31m",
                            0}),
            "[prompt] \\x1b[2Jp\n[output] a\tb\\x0d\n\\x1b]0;title\\x07\\x7f\n"
            "[ground_truth] \\xc2\\x9b31m\n[score] 0.0\n\n");
}

TEST(GenerationText, HasFourTaggedFields) {
  EXPECT_EQ(GenerationText({"p", "line 1\nline 2", "42", 0.9}),
            "[prompt] p\n[output] line 1\nline 2\n[ground_truth] 42\n[score] 0.9\n\n");
  EXPECT_EQ(GenerationLine(5, {"p\"", "a\n\xff", "\xe2\x88\x9a", 1}),
            "{\"step\": 5, \"prompt\": \"p\\\"\", \"output\": \"a\\n\\ufffd\", \"ground_truth\": "
            "\"\\u221a\", \"score\": 1.0}\n");
}

MetricLog Open(const std::string& folder, std::optional<int64_t> resumed) {
  Result<MetricLog> log = MetricLog::Open(folder, resumed, "{}");
  if (log.ok()) return std::move(log).value();
  ADD_FAILURE() << log.error().ToString();
  return {};
}

void WriteStep(MetricLog& log, int64_t step) {
  const Generation sample = {"p" + std::to_string(step), "o", "t", 1};
  EXPECT_TRUE(log.Write(step, {{"x", static_cast<double>(step)}}).ok());
  EXPECT_TRUE(log.WriteGenerations(step, {&sample, 1}).ok());
}

TEST(MetricLog, WritesItsFiles) {
  const TempFolder folder;
  MetricLog log = Open(folder / "a/b", std::nullopt);
  WriteStep(log, 1);
  EXPECT_TRUE(log.Sync().ok());
  EXPECT_EQ(ReadText(folder / "a/b/experiment_log.jsonl"), "{\"step\": 1, \"x\": 1.0}\n");
  EXPECT_EQ(ReadText(folder / "a/b/experiment_config.json"), "{}\n");
  EXPECT_EQ(ReadText(folder / "a/b/generations.log"),
            "[prompt] p1\n[output] o\n[ground_truth] t\n[score] 1.0\n\n");
}

TEST(MetricLog, ANewRunStartsEmpty) {
  const TempFolder folder;
  MetricLog first = Open(folder.path(), std::nullopt);
  WriteStep(first, 1);
  const MetricLog second = Open(folder.path(), std::nullopt);
  EXPECT_EQ(ReadText(folder / "experiment_log.jsonl"), "");
  EXPECT_EQ(ReadText(folder / "generations.log"), "");
}

// A run that continued to step 4 after the checkpoint of step 2, and died while writing.
TEST(MetricLog, AResumedRunGoesOnBehindItsCheckpoint) {
  const TempFolder folder;
  MetricLog first = Open(folder.path(), std::nullopt);
  for (const int64_t step : {1, 2, 2, 3, 4}) WriteStep(first, step);
  WriteText(folder / "experiment_log.jsonl",
            ReadText(folder / "experiment_log.jsonl") + "no json\n{\"x\": 1}\n{\"step\": 5, \"x");
  MetricLog second = Open(folder.path(), 2);
  EXPECT_EQ(second.dropped(), 2 + 2 + 2) << "steps 3 and 4 of two files, and two damaged lines";
  WriteStep(second, 3);
  EXPECT_EQ(ReadText(folder / "experiment_log.jsonl"),
            "{\"step\": 1, \"x\": 1.0}\n{\"step\": 2, \"x\": 2.0}\n{\"step\": 2, \"x\": 2.0}\n"
            "{\"step\": 3, \"x\": 3.0}\n");
  const std::string text = ReadText(folder / "generations.log");
  EXPECT_EQ(text.find("p4"), std::string::npos);
  EXPECT_THAT(text, HasSubstr("[prompt] p2\n"));
  EXPECT_THAT(text, HasSubstr("[prompt] p3\n"));
}

TEST(MetricLog, ResumesWithoutFiles) {
  const TempFolder folder;
  MetricLog log = Open(folder.path(), 7);
  WriteStep(log, 8);
  EXPECT_EQ(ReadText(folder / "experiment_log.jsonl"), "{\"step\": 8, \"x\": 8.0}\n");
}

// Logs of a run begun by another trainer have no records of samples by step.
TEST(MetricLog, SamplesOfAnotherTrainerAreKept) {
  const TempFolder folder;
  WriteText(folder / "generations.log", "[prompt] old\n\n");
  MetricLog log = Open(folder.path(), 3);
  WriteStep(log, 4);
  EXPECT_EQ(ReadText(folder / "generations.log"),
            "[prompt] old\n\n[prompt] p4\n[output] o\n[ground_truth] t\n[score] 1.0\n\n");
}

// Longer than one read.
TEST(MetricLog, ResumesLongLogs) {
  const TempFolder folder;
  MetricLog first = Open(folder.path(), std::nullopt);
  const std::string prompt(400'000, 'p');
  for (const int64_t step : {1, 2, 3, 4, 5})
    ASSERT_TRUE(first.WriteGenerations(step, {{{prompt, "o", "t", 1.0}}}).ok());
  const MetricLog second = Open(folder.path(), 4);
  EXPECT_EQ(second.dropped(), 1);
  const GenerationRecords kept = ParseGenerations(ReadText(folder / "generations.jsonl"));
  ASSERT_EQ(kept.records.size(), 4u);
  EXPECT_EQ(kept.records[3].sample.prompt, prompt);
  EXPECT_EQ(ReadText(folder / "generations.log").size(),
            4 * GenerationText({prompt, "o", "t", 1.0}).size());
}

TEST(MetricLog, AFolderInTheWayIsNotReplaced) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "experiment_log.jsonl/inner");
  ExpectError(MetricLog::Open(folder.path(), std::nullopt, "{}"), Errc::kIo, "replace");
  EXPECT_TRUE(Exists(folder / "experiment_log.jsonl/inner"));
}

TEST(MetricLog, ALogThatCannotBeReadIsNotLost) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "experiment_log.jsonl/inner");
  const Result<MetricLog> log = MetricLog::Open(folder.path(), 3, "{}");
  ASSERT_FALSE(log.ok());
  EXPECT_EQ(log.error().file(), folder / "experiment_log.jsonl");
  EXPECT_TRUE(Exists(folder / "experiment_log.jsonl/inner"));
}

TEST(MetricLog, AFolderThatCannotBeMade) {
  const TempFolder folder;
  WriteText(folder / "file", "");
  const auto error = ExpectError(MetricLog::Open(folder / "file/run", std::nullopt, "{}"),
                                 Errc::kIo, "create the folder");
  EXPECT_EQ(error->file(), folder / "file/run");
}

TEST(ParseMetrics, PassesOverDamage) {
  const MetricSeries series = ParseMetrics(
      "{\"step\": 2, \"a\": {\"b\": 1, \"c\": \"text\", \"d\": [1]}}\n"
      "{\"step\": 1, \"a\": {\"b\": NaN}}\n"
      "\n"
      "[1]\n"
      "{\"step\": 1.5, \"x\": 1}\n"
      "{\"step\": 99999999999999999999, \"x\": 1}\n"
      "{\"step\": 18446744073709551615, \"x\": 1}\n"
      "{\"step\": 2, \"a\": {\"b\": 7}}\n"
      "\x01\xff\n"
      "{\"step\": 3");
  EXPECT_EQ(series.records, 3);
  EXPECT_EQ(series.damaged, 7);
  ASSERT_EQ(series.by_name.size(), 1u);
  const std::vector<Point>& points = series.by_name.at("a/b");
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].step, 1) << "in the order of steps";
  EXPECT_TRUE(std::isnan(points[0].value));
  EXPECT_EQ(points[1].value, 7) << "the last record of a step";
}

TEST(ParseMetrics, BoundsDepth) {
  std::string deep = "{\"step\": 1, \"a\": ";
  for (int i = 0; i < 100; ++i) deep += "{\"a\": ";
  EXPECT_EQ(ParseMetrics(deep + "1" + std::string(101, '}') + "\n").damaged, 1);
}

TEST(ParseGenerations, TakesWhatIsThere) {
  const GenerationRecords records =
      ParseGenerations("{\"step\": 1, \"prompt\": 5, \"output\": \"o\"}\n{}\n{\"step\": 2}");
  ASSERT_EQ(records.records.size(), 1u);
  EXPECT_EQ(records.records[0].sample.output, "o");
  EXPECT_EQ(records.records[0].sample.prompt, "");
  EXPECT_TRUE(std::isnan(records.records[0].sample.score));
  EXPECT_EQ(records.damaged, 2);
}

TEST(ReadRunFiles, NeedsAFolderWithARun) {
  const TempFolder folder;
  ExpectError(ReadRunFiles(folder / "missing"), Errc::kNotFound, "no such folder");
  ExpectError(ReadRunFiles(folder.path()), Errc::kNotFound, "not a run");
}

}  // namespace
}  // namespace nxdkit::trainer
