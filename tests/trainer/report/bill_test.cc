// The bill of a run, computed by hand.
#include "trainer/report/bill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/lib/temp_folder.h"
#include "trainer/report/bill_text.h"
#include "trainer/report/metric_log.h"

namespace nxdkit::trainer {
namespace {

using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// 64 prompts x 8 responses of at most 1024 + 3072 tokens.
BillTerms Terms() {
  BillTerms terms;
  terms.prompts = 64;
  terms.samples = 8;
  terms.row_tokens = 4096;
  return terms;
}

class Log {
 public:
  Log& Add(int64_t step, const MetricRecord& record) {
    text_ += MetricLine(step, record);
    return *this;
  }
  // A step of so many seconds and tokens, with `gen` seconds in a phase.
  Log& Step(int64_t step, double seconds, double tokens, double gen = 1) {
    return Add(step, {{"perf/total_num_tokens", tokens},
                      {"timing_s/gen", gen},
                      {"timing_s/step", seconds},
                      {"timing_s/sync_load", 1e6}});
  }
  MetricSeries series() const { return ParseMetrics(text_); }

 private:
  std::string text_;
};

TEST(Bills, WithoutAMeasuredStepThereAreNoHours) {
  const Bill bill = MakeBill(Terms(), {0, 50}, {});
  EXPECT_EQ(bill.steps_left, 50);
  EXPECT_EQ(bill.prompts_left, 3200);
  EXPECT_EQ(bill.responses_left, 25600);
  EXPECT_EQ(bill.most_tokens_left, 104857600);
  EXPECT_EQ(bill.measured, 0);
  for (const auto& figure : {bill.step_seconds, bill.tokens_per_second, bill.tokens_so_far,
                             bill.seconds_so_far, bill.tokens_left, bill.seconds_left})
    EXPECT_EQ(figure, std::nullopt);
  EXPECT_EQ(BillLeftText(bill),
            "to the end: 50 of 50 steps, 3,200 prompts, 25,600 responses, at most 105 M tokens\n"
            "hours: not known until a step was measured\n");
  EXPECT_EQ(BillSoFarText(bill), "");
}

// Steps 2 to 4 count: 40, 50 and 30 s, 1000, 3000 and 2000 tokens. To the end 6 x 40 s, and
// checkpoints of steps 6, 9 and 10 of 5 s.
TEST(Bills, OfAMeasuredRun) {
  Log log;
  log.Step(1, 500, 9000).Step(2, 40, 1000).Step(3, 55, 3000).Step(4, 30, 2000);
  log.Add(3, {{"timing_s/save_checkpoint", 5}});
  BillTerms terms = Terms();
  terms.save_freq = 3;
  terms.nodes = 2;
  terms.price_per_hour = 18;
  const Bill bill = MakeBill(terms, {4, 10}, log.series());
  EXPECT_EQ(bill.measured, 3);
  EXPECT_EQ(bill.step_seconds, 40);
  EXPECT_EQ(bill.step_tokens, 2000);
  EXPECT_EQ(bill.tokens_per_second, 50);
  EXPECT_EQ(bill.save_seconds, 5);
  EXPECT_EQ(bill.saves_left, 3);
  EXPECT_EQ(bill.validations_left, 0);
  EXPECT_EQ(bill.tokens_so_far, 15000);
  EXPECT_EQ(bill.seconds_so_far, 625);
  EXPECT_EQ(bill.tokens_left, 12000);
  EXPECT_EQ(bill.seconds_left, 6 * 40 + 3 * 5);
  EXPECT_DOUBLE_EQ(*bill.cost_so_far, 625.0 / 3600 * 2 * 18);
  EXPECT_DOUBLE_EQ(*bill.cost_left, 255.0 / 3600 * 2 * 18);
  EXPECT_EQ(
      BillLeftText(bill),
      "to the end: 6 of 10 steps, 384 prompts, 3,072 responses, at most 12.6 M tokens\n"
      "measured: 40 s and 2 k tokens a step, 50 tokens a second, the median of 3 steps\n"
      "left: 12 k tokens in 4 min 15 s, cost 2.55 at 18 an hour x 2 nodes, with 3 checkpoints\n");
  EXPECT_EQ(BillSoFarText(bill),
            "so far: 15 k tokens in 10 min 25 s, cost 6.25 at 18 an hour x 2 nodes\n");
}

// A step of 100 s, including 70 of validation and 10 of saving.
TEST(Bills, AStepIsMeasuredWithoutValidationAndCheckpoint) {
  Log log;
  log.Step(5, 100, 1000).Add(5, {{"timing_s/validation", 70}, {"timing_s/save_checkpoint", 10}});
  BillTerms terms = Terms();
  terms.val_freq = 5;
  terms.save_freq = 10;
  const Bill bill = MakeBill(terms, {5, 20}, log.series());
  EXPECT_EQ(bill.step_seconds, 20);
  EXPECT_EQ(bill.validations_left, 3);  // 10, 15, 20
  EXPECT_EQ(bill.saves_left, 2);        // 10, 20
  EXPECT_EQ(bill.seconds_left, 15 * 20 + 3 * 70 + 2 * 10);
  EXPECT_EQ(bill.seconds_so_far, 100);
}

// Saved after the loop: 90 s that are not in the 40 s of the step, 38 of which are its phases.
TEST(Bills, TheCheckpointOfTheEndIsNoPartOfItsStep) {
  Log log;
  log.Step(1, 40, 1000, 38).Add(1, {{"timing_s/save_checkpoint", 90}});
  const Bill bill = MakeBill(Terms(), {1, 2}, log.series());
  EXPECT_EQ(bill.step_seconds, 38);
  EXPECT_EQ(bill.seconds_so_far, 128);
  EXPECT_EQ(bill.seconds_left, 38 + 90);
}

TEST(Bills, TheFirstStepCountsOnlyAlone) {
  Log log;
  log.Step(1, 500, 1000);
  EXPECT_EQ(MakeBill(Terms(), {1, 3}, log.series()).step_seconds, 500);
  log.Step(2, 40, 1000);
  const Bill bill = MakeBill(Terms(), {2, 3}, log.series());
  EXPECT_EQ(bill.step_seconds, 40);
  EXPECT_EQ(bill.measured, 1);
  EXPECT_THAT(BillLeftText(bill), HasSubstr("tokens a second, by one step\n"));
}

TEST(Bills, TheLastTwentyStepsAreTheRate) {
  Log log;
  for (int64_t step = 1; step <= 60; ++step) log.Step(step, step <= 40 ? 100 : 10, 1000);
  const Bill bill = MakeBill(Terms(), {60, 100}, log.series());
  EXPECT_EQ(bill.measured, 20);
  EXPECT_EQ(bill.step_seconds, 10);
  EXPECT_EQ(bill.seconds_left, 400);
}

TEST(Bills, WhatWasNeverMeasuredIsNotGuessed) {
  Log log;
  log.Step(1, 10, 1000);
  BillTerms terms = Terms();
  terms.val_freq = 4;
  terms.validates_first = true;
  const Bill bill = MakeBill(terms, {1, 10}, log.series());
  EXPECT_EQ(bill.validations_left, 4);  // the first, 4, 8 and the final one
  EXPECT_EQ(bill.saves_left, 1);
  EXPECT_EQ(bill.uncounted_validations, 4);
  EXPECT_EQ(bill.uncounted_saves, 1);
  EXPECT_EQ(bill.seconds_left, 90);
  EXPECT_THAT(BillLeftText(bill),
              HasSubstr("left: 9 k tokens in 1 min 30 s, without 4 validations and 1 checkpoint of "
                        "which no time is known yet\n"));
}

TEST(Bills, DamagedTimesAreMissing) {
  Log log;
  log.Step(1, 10, 1000).Step(2, kNan, 1000).Step(3, -5, -1).Step(4, kInf, kNan).Step(5, 0, 0);
  log.Add(6, {{"timing_s/gen", 3}}).Add(7, {{"timing_s/step", 20}});
  const Bill bill = MakeBill(Terms(), {7, 8}, log.series());
  EXPECT_EQ(bill.measured, 1) << "step 7";
  EXPECT_EQ(bill.step_seconds, 20);
  EXPECT_EQ(bill.step_tokens, std::nullopt);
  EXPECT_EQ(bill.tokens_left, std::nullopt);
  EXPECT_EQ(bill.tokens_so_far, 2000);
  EXPECT_EQ(bill.seconds_so_far, 10 + 4 * 1 + 3 + 20) << "phases where the step has no time";
  EXPECT_THAT(BillLeftText(bill), HasSubstr("measured: 20 s a step, by one step\nleft: 20 s, "));
}

TEST(Bills, AtTheEndNothingIsLeft) {
  Log log;
  log.Step(1, 10, 1000);
  for (const int64_t all : {1, 0}) {
    BillTerms terms = Terms();
    terms.val_freq = 2;
    terms.validates_first = true;
    terms.price_per_hour = 7;
    const Bill bill = MakeBill(terms, {1, all}, log.series());
    EXPECT_EQ(bill.steps_left, 0);
    EXPECT_EQ(bill.validations_left, 0);
    EXPECT_EQ(bill.saves_left, 0);
    EXPECT_EQ(bill.seconds_left, 0);
    EXPECT_EQ(bill.tokens_left, 0);
    EXPECT_EQ(bill.cost_left, 0);
  }
  const Bill unknown = MakeBill(Terms(), {1, std::nullopt}, log.series());
  EXPECT_EQ(unknown.steps_left, std::nullopt);
  EXPECT_EQ(unknown.seconds_left, std::nullopt);
  EXPECT_EQ(unknown.step_seconds, 10);
}

TEST(Bills, ARunThatOnlyValidatesHasNoSteps) {
  BillTerms terms = Terms();
  terms.only_validates = true;
  terms.validates_first = true;
  terms.val_freq = 2;
  terms.price_per_hour = 7;
  const Bill before = MakeBill(terms, {0, 50}, {});
  EXPECT_EQ(before.steps_left, 0);
  EXPECT_EQ(before.most_tokens_left, 0);
  EXPECT_EQ(before.validations_left, 1);
  EXPECT_EQ(before.saves_left, 0);
  EXPECT_EQ(before.uncounted_validations, 1);
  EXPECT_EQ(before.seconds_left, std::nullopt);
  EXPECT_EQ(BillLeftText(before),
            "to the end: no step, 1 validation\n"
            "hours: not known until a validation was measured\n");
  Log log;
  log.Add(0, {{"timing_s/validation", 1800}});
  const Bill measured = MakeBill(terms, {0, 50}, log.series());
  EXPECT_EQ(measured.uncounted_validations, 0);
  EXPECT_EQ(measured.seconds_left, 1800);
  EXPECT_EQ(measured.cost_left, 3.5);
  EXPECT_EQ(measured.step_seconds, std::nullopt) << "a validation is no step";
  EXPECT_EQ(BillLeftText(measured),
            "to the end: no step, 1 validation\n"
            "left: 30 min 0 s, cost 3.50 at 7 an hour x 1 node\n");
  const Bill after = MakeBill(terms, {.done = 0, .all = 50, .ended = true}, log.series());
  EXPECT_EQ(after.steps_left, 0);
  EXPECT_EQ(after.validations_left, 0);
  EXPECT_EQ(after.seconds_left, 0);
  RunFiles run;
  run.config = {{"trainer.max_steps", "50"}, {"trainer.val_only", "true"}};
  EXPECT_EQ(BillOf(run, std::nullopt).steps_left, 0);
}

TEST(Bills, APriceOfNothingIsAPrice) {
  Log log;
  log.Step(1, 10, 1000);
  BillTerms terms = Terms();
  EXPECT_EQ(MakeBill(terms, {1, 2}, log.series()).cost_left, std::nullopt);
  terms.price_per_hour = 0;
  EXPECT_EQ(MakeBill(terms, {1, 2}, log.series()).cost_left, 0);
}

TEST(Bills, HoursSoFarAreThoseOfAllAttempts) {
  Log log;
  log.Step(1, 10, 1000);
  EXPECT_EQ(MakeBill(Terms(), {1, 2, {3, 7200}}, log.series()).seconds_so_far, 7200);
  EXPECT_EQ(MakeBill(Terms(), {1, 2, {3, 5}}, log.series()).seconds_so_far, 10) << "a log cut off";
  EXPECT_THAT(BillSoFarText(MakeBill(Terms(), {1, 2, {3, 7200}}, log.series())),
              HasSubstr("1 k tokens in 2 h 0 min, of 3 attempts\n"));
}

TEST(Bills, OfTheFilesOfARun) {
  const testing_util::TempFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    testing_util::WriteText(folder / name, text);
  };
  write("experiment_log.jsonl", MetricLine(3, {{"timing_s/step", 36}}));
  write("experiment_config.json",
        "{\"data\": {\"rollout_batch_size\": 4, \"max_prompt_length\": 10, "
        "\"max_response_length\": 20}, \"worker\": {\"rollout\": {\"n\": 2}}, \"trainer\": "
        "{\"nnodes\": 2, \"max_steps\": 8, \"save_freq\": 4, \"val_freq\": null}}");
  const auto run = ReadRunFiles(folder.path());
  ASSERT_TRUE(run.ok()) << run.error().ToString();
  const Bill bill = BillOf(*run, 50);
  EXPECT_EQ(bill.progress.done, 3);
  EXPECT_EQ(bill.steps_left, 5);
  EXPECT_EQ(bill.most_tokens_left, 5 * 4 * 2 * 30);
  EXPECT_EQ(bill.seconds_left, 180);
  EXPECT_EQ(bill.cost_left, 5);
  EXPECT_EQ(bill.saves_left, 2);
  const Json json = BillJson(bill);
  EXPECT_EQ(json["hours_left"], 0.05);
  EXPECT_EQ(json["tokens_left"], Json());
  EXPECT_EQ(json["steps"], 8);
}

// Epochs do not determine the number of steps: the running log does.
TEST(Bills, TheRunningLogSaysHowManyStepsTheRunHas) {
  RunFiles run;
  run.metrics.by_name["timing_s/step"] = {{2, 10}};
  EXPECT_EQ(BillOf(run, std::nullopt).steps_left, std::nullopt);
  run.clock.steps = 12;
  EXPECT_EQ(BillOf(run, std::nullopt).steps_left, 10);
  run.config = {{"trainer.max_steps", "4"}};
  EXPECT_EQ(BillOf(run, std::nullopt).steps_left, 2);
}

}  // namespace
}  // namespace nxdkit::trainer
