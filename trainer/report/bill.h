// The bill of a run: the tokens, hours and money that it has taken and will take, from its plan
// and from what its logs have measured. Nothing is guessed: without a measured step there is no
// rate, and no prices are known here.
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/config/config.h"
#include "trainer/config/plan.h"
#include "trainer/report/run_files.h"

namespace nxdkit::trainer {

// The terms that the configuration and the user set.
struct BillTerms {
  int64_t prompts = 0;                    // B, of a step
  int64_t samples = 0;                    // n
  int64_t row_tokens = 0;                 // P + R, the most of a prompt and a response
  int64_t val_freq = -1, save_freq = -1;  // in steps; 0 or less: only as the end asks for it
  bool validates_first = false;           // a process that begins validates before its first step
  bool only_validates = false;            // one validation, and no step
  int64_t nodes = 1;
  std::optional<double> price_per_hour;  // of one node, in whatever currency
};
BillTerms TermsOf(const Config& config, const RunPlan& plan, std::optional<double> price_per_hour);

struct BillProgress {
  int64_t done = 0;            // steps
  std::optional<int64_t> all;  // of the whole run; nullopt: not known
  RunClock clock{};            // without attempts the metric log alone says how long it took
  bool ended = false;          // whatever the steps say, nothing is left
};

// Figures that are not known are nullopt.
struct Bill {
  BillTerms terms;
  BillProgress progress;

  // Until the end. Validations and checkpoints with those that the end itself makes.
  std::optional<int64_t> steps_left, validations_left, saves_left;
  // Responses that are learned from, and the most tokens that they and their prompts can have.
  std::optional<double> prompts_left, responses_left, most_tokens_left;

  // Medians of the last `measured` steps, at most kBillSteps, that have a time. The first step of
  // the log, which warms up, is only taken where it is the only one.
  int64_t measured = 0;
  std::optional<double> step_seconds;  // without validation and checkpoint
  std::optional<double> step_tokens;   // of prompts and responses, without padding
  std::optional<double> tokens_per_second;
  // Medians of as many validations and checkpoints.
  std::optional<double> validation_seconds, save_seconds;

  // All attempts together. Tokens are those of the steps that count: what a crash has lost is not
  // in them.
  std::optional<double> tokens_so_far, seconds_so_far, cost_so_far;
  // At the measured rate. Validations and checkpoints to come are in it as far as they were
  // measured: uncounted_* are those that are not. Loading is not.
  std::optional<double> tokens_left, seconds_left, cost_left;
  int64_t uncounted_validations = 0, uncounted_saves = 0;
};
inline constexpr int64_t kBillSteps = 20;
inline constexpr double kSecondsPerHour = 3600;

// Values of `log` that are negative or not finite count as missing.
Bill MakeBill(const BillTerms& terms, const BillProgress& progress, const MetricSeries& log);

// The bill by a run's files, as they are.
Bill BillOf(const RunFiles& run, std::optional<double> price_per_hour);

}  // namespace nxdkit::trainer
