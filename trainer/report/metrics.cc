#include "trainer/report/metrics.h"

#include <Eigen/Core>
#include <algorithm>
#include <chrono>

#include "lib/base/process_memory.h"
#include "lib/system/system.h"

namespace nxdkit::trainer {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

std::string Name(std::string_view group, std::string_view leaf) {
  return std::string(group) + "/" + std::string(leaf);
}

template <typename T>
Eigen::ArrayXd Wide(std::span<const T> values) {
  return Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>(
             values.data(), static_cast<Eigen::Index>(values.size()))
      .template cast<double>();
}

template <typename T>
void AddStatsOf(Metrics& metrics, std::string_view group, std::span<const T> values) {
  if (values.empty()) return;
  const Eigen::ArrayXd wide = Wide(values);
  metrics.Set(Name(group, "mean"), wide.mean());
  metrics.Set(Name(group, "max"), wide.maxCoeff());
  metrics.Set(Name(group, "min"), wide.minCoeff());
}

// The sample variance, with n - 1.
double Variance(const Eigen::ArrayXd& values) {
  return (values - values.mean()).square().sum() / static_cast<double>(values.size() - 1);
}

double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr std::string_view kPerResponseToken[] = {"gen", "reward"};
constexpr std::string_view kPerToken[] = {"ref", "old",           "values",
                                          "adv", "update_critic", "update_actor"};

}  // namespace

const double* FindMetric(const MetricRecord& record, std::string_view name) {
  const auto found = std::ranges::find(record, name, &MetricRecord::value_type::first);
  return found == record.end() ? nullptr : &found->second;
}

void Metrics::Add(std::string_view name, double value, double weight) {
  Sum& sum = sums_.try_emplace(std::string(name)).first->second;
  sum.total += value * weight;
  sum.weight += weight;
}

void Metrics::Set(std::string_view name, double value) { sums_[std::string(name)] = {value, 1}; }

void Metrics::Merge(const Metrics& other) {
  for (const auto& [name, theirs] : other.sums_) {
    Sum& sum = sums_[name];
    sum.total += theirs.total;
    sum.weight += theirs.weight;
  }
}

MetricRecord Metrics::Means() const {
  MetricRecord record;
  for (const auto& [name, sum] : sums_) record.emplace_back(name, sum.total / sum.weight);
  return record;
}

void AddStats(Metrics& metrics, std::string_view group, std::span<const float> values) {
  AddStatsOf(metrics, group, values);
}

void AddLengths(Metrics& metrics, std::string_view group, std::span<const int64_t> lengths,
                int64_t clipped) {
  if (lengths.empty()) return;
  AddStatsOf(metrics, group, lengths);
  metrics.Set(Name(group, "clip_ratio"),
              static_cast<double>(clipped) / static_cast<double>(lengths.size()));
}

double ExplainedVariance(std::span<const float> returns, std::span<const float> values) {
  const size_t count = std::min(returns.size(), values.size());
  if (count < 2) return 0;
  const Eigen::ArrayXd all = Wide(returns.first(count));
  return 1 - Variance(all - Wide(values.first(count))) / (Variance(all) + 1e-5);
}

double TrainingFlops(const ModelCost& model, std::span<const int64_t> lengths) {
  double tokens = 0;
  double squares = 0;
  for (const int64_t length : lengths) {
    const auto size = static_cast<double>(length);
    tokens += size;
    squares += size * size;
  }
  const auto d = [](int64_t value) { return static_cast<double>(value); };
  const double heads = d(model.heads) * d(model.head_dim);
  const double kv_heads = d(model.kv_heads) * d(model.head_dim);
  const double layer = d(model.hidden) * (3 * d(model.intermediate) + 2 * heads + 2 * kv_heads);
  const double weights = d(model.layers) * layer + 2 * d(model.vocab) * d(model.hidden);
  return 6 * weights * tokens + 12 * squares * heads * d(model.layers);
}

void AddPerformance(Metrics& metrics, const StepPerformance& step) {
  const auto devices = static_cast<double>(std::max<int64_t>(step.devices, 1));
  const auto tokens = static_cast<double>(step.tokens);
  metrics.Set("perf/total_num_tokens", tokens);
  metrics.Set("perf/time_per_step", step.seconds);
  if (step.seconds > 0) metrics.Set("perf/throughput", tokens / (step.seconds * devices));
  metrics.Set("perf/cpu_memory_used_gb", static_cast<double>(RssBytes()) / kGib);
  for (const char* name : {"perf/max_memory_allocated_gb", "perf/max_memory_reserved_gb"})
    metrics.Set(name, static_cast<double>(PeakRssBytes()) / kGib);
  if (!(step.peak_tflops > 0)) return;
  const double peak =
      step.peak_tflops * 1e12 * static_cast<double>(std::max<int64_t>(step.training_devices, 1));
  for (const auto& [name, work] :
       {std::pair("perf/mfu_actor", step.actor), {"perf/mfu_critic", step.critic}})
    if (work.seconds > 0) metrics.Set(name, work.flops / (work.seconds * peak));
}

void AddTimings(Metrics& metrics, const PhaseTimes& phases, int64_t response_tokens,
                int64_t all_tokens) {
  for (const auto& [name, seconds] : phases) {
    metrics.Set(Name("timing_s", name), seconds);
    const int64_t tokens = std::ranges::count(kPerResponseToken, name) > 0 ? response_tokens
                           : std::ranges::count(kPerToken, name) > 0       ? all_tokens
                                                                           : 0;
    if (tokens > 0)
      metrics.Set(Name("timing_per_token_ms", name), seconds * 1000 / static_cast<double>(tokens));
  }
}

PhaseTimer::PhaseTimer(Clock clock) : clock_(clock ? std::move(clock) : SteadySeconds) {}

void PhaseTimer::Begin(std::string_view phase) {
  End();
  running_ = phase;
  began_ = clock_();
}

void PhaseTimer::End() {
  if (running_.empty()) return;
  const double seconds = clock_() - began_;
  const auto found = std::ranges::find(phases_, running_, &PhaseTimes::value_type::first);
  if (found == phases_.end())
    phases_.emplace_back(running_, seconds);
  else
    found->second += seconds;
  running_.clear();
}

PhaseTimes PhaseTimer::Take() {
  End();
  return std::exchange(phases_, {});
}

}  // namespace nxdkit::trainer
