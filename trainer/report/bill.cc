#include "trainer/report/bill.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <vector>

#include "lib/base/text.h"

namespace nxdkit::trainer {
namespace {

constexpr std::string_view kTimes = "timing_s/";

struct StepTimes {
  double whole = 0;  // 0: unknown
  double phases = 0;
  double validation = 0;
  double save = 0;
  double tokens = 0;

  // Without validation and checkpoint. Those at the end of the run are outside of the step's time,
  // though they are logged with it: no step is shorter than its phases.
  double Training() const { return std::min(whole, std::max(whole - validation - save, phases)); }
  double All() const { return std::max(whole, phases + validation + save); }
};

double* FieldOf(StepTimes& times, std::string_view name) {
  if (name == "perf/total_num_tokens") return &times.tokens;
  if (!name.starts_with(kTimes)) return nullptr;
  const std::string_view phase = name.substr(kTimes.size());
  if (phase.starts_with("sync_")) return nullptr;  // a part of gen or validation
  return phase == "step"              ? &times.whole
         : phase == "validation"      ? &times.validation
         : phase == "save_checkpoint" ? &times.save
                                      : &times.phases;
}

std::map<int64_t, StepTimes> TimesOf(const MetricSeries& log) {
  std::map<int64_t, StepTimes> steps;
  StepTimes unused;
  for (const auto& [name, points] : log.by_name) {
    if (FieldOf(unused, name) == nullptr) continue;
    for (const Point& point : points)
      if (std::isfinite(point.value) && point.value >= 0)
        *FieldOf(steps[point.step], name) += point.value;
  }
  return steps;
}

std::optional<double> Median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The last values above 0, at most kBillSteps.
template <typename Of>
std::vector<double> LastOf(const std::map<int64_t, StepTimes>& steps, const Of& of) {
  std::vector<double> found;
  for (auto it = steps.rbegin(); it != steps.rend() && std::ssize(found) < kBillSteps; ++it)
    if (const double value = of(it->second); value > 0) found.push_back(value);
  return found;
}

void Measure(std::map<int64_t, StepTimes> steps, Bill& bill) {
  bill.validation_seconds = Median(LastOf(steps, [](const auto& s) { return s.validation; }));
  bill.save_seconds = Median(LastOf(steps, [](const auto& s) { return s.save; }));
  std::erase_if(steps, [](const auto& item) { return !(item.second.Training() > 0); });
  if (steps.size() > 1) steps.erase(steps.begin());
  while (std::ssize(steps) > kBillSteps) steps.erase(steps.begin());
  bill.measured = std::ssize(steps);
  bill.step_seconds = Median(LastOf(steps, [](const auto& s) { return s.Training(); }));
  bill.step_tokens = Median(LastOf(steps, [](const auto& s) { return s.tokens; }));
  if (bill.step_tokens) bill.tokens_per_second = *bill.step_tokens / *bill.step_seconds;
}

void SumUp(const std::map<int64_t, StepTimes>& steps, Bill& bill) {
  double tokens = 0, seconds = 0;
  for (const auto& [step, times] : steps) {
    tokens += times.tokens;
    seconds += times.All();
  }
  if (tokens > 0) bill.tokens_so_far = tokens;
  // The metric log has no loading times and lost steps; it may exist alone.
  if (bill.progress.clock.attempts > 0) seconds = std::max(seconds, bill.progress.clock.seconds);
  if (seconds > 0 || bill.progress.clock.attempts > 0) bill.seconds_so_far = seconds;
}

// The number of steps from done + 1 to all that are multiples of `freq`; with `at_end` the last one
// always counts.
int64_t Due(int64_t done, int64_t all, int64_t freq, bool at_end) {
  const int64_t due = freq > 0 ? all / freq - done / freq : 0;
  return due + (at_end && (freq <= 0 || all % freq != 0) ? 1 : 0);
}

// The validations of a process that takes no step.
int64_t OnlyValidations(const Bill& bill) {
  return bill.terms.only_validates && !bill.progress.ended ? 1 : 0;
}

void CountLeft(Bill& bill) {
  if (!bill.progress.all) return;
  const BillTerms& terms = bill.terms;
  const int64_t done = bill.progress.done, all = *bill.progress.all;
  const bool trains = !terms.only_validates && !bill.progress.ended;
  const int64_t left = trains ? std::max<int64_t>(0, all - done) : 0;
  bill.steps_left = left;
  bill.validations_left = left == 0 ? OnlyValidations(bill)
                                    : Due(done, all, terms.val_freq, terms.val_freq > 0) +
                                          (terms.validates_first ? 1 : 0);
  bill.saves_left = left == 0 ? 0 : Due(done, all, terms.save_freq, true);
  bill.prompts_left = static_cast<double>(left) * static_cast<double>(terms.prompts);
  bill.responses_left = *bill.prompts_left * static_cast<double>(terms.samples);
  bill.most_tokens_left = *bill.responses_left * static_cast<double>(terms.row_tokens);
}

// Adds `count` times `each` if that is known; otherwise they stay uncounted.
void AddTimes(int64_t count, const std::optional<double>& each, double& seconds,
              int64_t& uncounted) {
  if (each)
    seconds += static_cast<double>(count) * *each;
  else
    uncounted = count;
}

void EstimateRest(Bill& bill) {
  if (!bill.steps_left) return;
  const auto left = static_cast<double>(*bill.steps_left);
  if (left == 0) {
    bill.tokens_left = 0;
    bill.uncounted_validations = bill.validation_seconds ? 0 : *bill.validations_left;
    if (bill.uncounted_validations == 0)
      bill.seconds_left =
          static_cast<double>(*bill.validations_left) * bill.validation_seconds.value_or(0);
    return;
  }
  if (bill.step_tokens) bill.tokens_left = left * *bill.step_tokens;
  if (!bill.step_seconds) return;
  double seconds = left * *bill.step_seconds;
  AddTimes(*bill.validations_left, bill.validation_seconds, seconds, bill.uncounted_validations);
  AddTimes(*bill.saves_left, bill.save_seconds, seconds, bill.uncounted_saves);
  bill.seconds_left = seconds;
}

std::optional<double> CostOf(const BillTerms& terms, const std::optional<double>& seconds) {
  if (!terms.price_per_hour || !seconds) return std::nullopt;
  return *seconds / kSecondsPerHour * static_cast<double>(terms.nodes) * *terms.price_per_hour;
}

// A number of the run's configuration; `otherwise` if it is not set.
int64_t ConfigNumber(const RunFiles& run, std::string_view path, int64_t otherwise) {
  constexpr int64_t kMost = int64_t{1} << 31;
  for (const auto& [key, value] : run.config)
    if (key == path)
      return std::clamp(ParseNumber<int64_t>(value).value_or(otherwise), -kMost, kMost);
  return otherwise;
}

bool ConfigSays(const RunFiles& run, std::string_view path) {
  return std::ranges::any_of(
      run.config, [&](const auto& leaf) { return leaf.first == path && leaf.second == "true"; });
}

int64_t LastStep(const MetricSeries& log) {
  int64_t last = 0;
  for (const auto& [name, points] : log.by_name)
    if (!points.empty()) last = std::max(last, points.back().step);
  return last;
}

}  // namespace

BillTerms TermsOf(const Config& config, const RunPlan& plan, std::optional<double> price_per_hour) {
  const TrainerConfig& trainer = config.trainer;
  BillTerms terms;
  terms.prompts = plan.prompts;
  terms.samples = plan.samples;
  terms.row_tokens = config.data.max_prompt_length + config.data.max_response_length;
  terms.val_freq = trainer.val_freq;
  terms.save_freq = trainer.save_freq;
  terms.validates_first = trainer.val_before_train && !config.data.val_files.empty();
  terms.only_validates = trainer.val_only;
  terms.nodes = plan.nodes;
  terms.price_per_hour = price_per_hour;
  return terms;
}

Bill MakeBill(const BillTerms& terms, const BillProgress& progress, const MetricSeries& log) {
  Bill bill;
  bill.terms = terms;
  bill.progress = progress;
  const std::map<int64_t, StepTimes> steps = TimesOf(log);
  Measure(steps, bill);
  SumUp(steps, bill);
  CountLeft(bill);
  EstimateRest(bill);
  bill.cost_so_far = CostOf(terms, bill.seconds_so_far);
  bill.cost_left = CostOf(terms, bill.seconds_left);
  return bill;
}

Bill BillOf(const RunFiles& run, std::optional<double> price_per_hour) {
  const auto number = [&](std::string_view path, int64_t otherwise) {
    return ConfigNumber(run, path, otherwise);
  };
  BillTerms terms;
  terms.prompts = std::max<int64_t>(0, number("data.rollout_batch_size", 0));
  terms.samples = std::max<int64_t>(0, number("worker.rollout.n", 0));
  terms.row_tokens = std::max<int64_t>(
      0, number("data.max_prompt_length", 0) + number("data.max_response_length", 0));
  terms.val_freq = number("trainer.val_freq", -1);
  terms.save_freq = number("trainer.save_freq", -1);
  terms.nodes = std::max<int64_t>(1, number("trainer.nnodes", 1));
  terms.price_per_hour = price_per_hour;
  BillProgress progress;
  progress.done = std::max({int64_t{0}, LastStep(run.metrics), run.end.value_or(0)});
  progress.clock = run.clock;
  // Its files do not show whether a validation-only run has finished: it is assumed to have.
  progress.ended = ConfigSays(run, "trainer.val_only");
  const int64_t most = number("trainer.max_steps", 0);
  progress.all = most > 0 ? std::optional(most) : run.clock.steps;
  return MakeBill(terms, progress, run.metrics);
}

}  // namespace nxdkit::trainer
