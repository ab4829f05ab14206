// The bill of a run: tokens, hours and money so far and still to come, from its plan and its logs'
// measurements. Nothing is guessed: without a measured step there is no rate, and no prices are
// built in.
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/config/config.h"
#include "trainer/config/plan.h"
#include "trainer/report/run_files.h"

namespace nxdkit::trainer {

// The terms set by the configuration and the user.
struct BillTerms {
  int64_t prompts = 0;                    // B, in a step
  int64_t samples = 0;                    // n
  int64_t row_tokens = 0;                 // P + R, the maximum of prompt plus response
  int64_t val_freq = -1, save_freq = -1;  // in steps; 0 or less: only at the end, if required
  bool validates_first = false;           // a starting process validates before its first step
  bool only_validates = false;            // one validation, and no step
  int64_t nodes = 1;
  std::optional<double> price_per_hour;  // for one node, in any currency
};
BillTerms TermsOf(const Config& config, const RunPlan& plan, std::optional<double> price_per_hour);

struct BillProgress {
  int64_t done = 0;            // steps
  std::optional<int64_t> all;  // in the whole run; nullopt: unknown
  RunClock clock{};            // without attempts, durations come from the metric log alone
  bool ended = false;          // nothing is left, whatever the steps say
};

// Unknown figures are nullopt.
struct Bill {
  BillTerms terms;
  BillProgress progress;

  // Until the end, including the validation and the checkpoint at the end itself.
  std::optional<int64_t> steps_left, validations_left, saves_left;
  // Responses used for training, and the maximum number of tokens in them and their prompts.
  std::optional<double> prompts_left, responses_left, most_tokens_left;

  // Medians of the last `measured` steps, at most kBillSteps, that have a time. The first step of
  // the log, which includes warming up, is only used if it is the only one.
  int64_t measured = 0;
  std::optional<double> step_seconds;  // without validation and checkpoint
  std::optional<double> step_tokens;   // of prompts and responses, without padding
  std::optional<double> tokens_per_second;
  // Medians of as many validations and checkpoints.
  std::optional<double> validation_seconds, save_seconds;

  // All attempts together. Tokens are those of the steps that count, without those lost in a crash.
  std::optional<double> tokens_so_far, seconds_so_far, cost_so_far;
  // At the measured rate. Future validations and checkpoints are included if they were measured:
  // uncounted_* are those that were not. Loading is not included.
  std::optional<double> tokens_left, seconds_left, cost_left;
  int64_t uncounted_validations = 0, uncounted_saves = 0;
};
inline constexpr int64_t kBillSteps = 20;
inline constexpr double kSecondsPerHour = 3600;

// Values of `log` that are negative or not finite count as missing.
Bill MakeBill(const BillTerms& terms, const BillProgress& progress, const MetricSeries& log);

// The bill from a run's files as they are.
Bill BillOf(const RunFiles& run, std::optional<double> price_per_hour);

}  // namespace nxdkit::trainer
