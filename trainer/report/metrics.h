// The numbers of one training step, by name: "actor/pg_loss", "timing_s/gen". Values added under
// the same name (by ranks, micro-batches, rewards) become their mean, unweighted if no weights are
// given.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nxdkit::trainer {

// The logged form: ascending names, one value each.
using MetricRecord = std::vector<std::pair<std::string, double>>;
const double* FindMetric(const MetricRecord& record, std::string_view name);  // nullptr: none

// Not thread-safe: each rank collects its own, Merge joins them in rank order.
class Metrics {
 public:
  void Add(std::string_view name, double value, double weight = 1);
  void Set(std::string_view name, double value);  // replaces earlier values
  void Merge(const Metrics& other);
  MetricRecord Means() const;

 private:
  struct Sum {
    double total = 0;
    double weight = 0;
  };
  std::map<std::string, Sum, std::less<>> sums_;
};

// "<group>/mean", "/max" and "/min"; nothing when there are no values.
void AddStats(Metrics& metrics, std::string_view group, std::span<const float> values);

// AddStats of the lengths, and "/clip_ratio": the share of `clipped` ones. A response is clipped if
// the limit has cut it (EasyR1 also counts those that end by themselves with the last possible
// token), a prompt if it has the maximum length. `group`: response_length, prompt_length,
// val_response_length, val_prompt_length.
void AddLengths(Metrics& metrics, std::string_view group, std::span<const int64_t> lengths,
                int64_t clipped);

// 1 - Var(returns - values) / (Var(returns) + 1e-5), over valid tokens, with n - 1; 0 below 2.
double ExplainedVariance(std::span<const float> returns, std::span<const float> values);

// The cost of a forward and backward pass, by the usual count of products.
struct ModelCost {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t vocab = 0;
};
// 6 N tokens + 12 (sum of squared lengths) head_dim heads layers, with N the weights of all
// products, including the head even if it is tied.
double TrainingFlops(const ModelCost& model, std::span<const int64_t> lengths);

// The throughput of a step: perf/total_num_tokens, time_per_step, throughput (tokens per second and
// device), cpu_memory_used_gb, max_memory_allocated_gb and _reserved_gb (GiB in this process, now
// and at most: reserved memory equals used memory); and mfu_actor and mfu_critic, for updated
// models, if the peak is known.
struct StepPerformance {
  int64_t tokens = 0;            // prompts and responses, no padding
  double seconds = 0;            // for the whole step
  int64_t devices = 1;           // in the run: throughput is per device
  int64_t training_devices = 1;  // in updates: MFU relates to their peak
  struct Work {
    double flops = 0;    // TrainingFlops * ppo_epochs
    double seconds = 0;  // in updates; 0: there were none
  };
  Work actor{}, critic{};
  double peak_tflops = 0;  // of one device; 0: unknown
};
void AddPerformance(Metrics& metrics, const StepPerformance& performance);

// timing_s/<phase> for each, and timing_per_token_ms/<phase>: gen and reward over response tokens,
// ref, old, values, adv and update_* over all tokens.
using PhaseTimes = std::vector<std::pair<std::string, double>>;  // seconds
void AddTimings(Metrics& metrics, const PhaseTimes& phases, int64_t response_tokens,
                int64_t all_tokens);

// Seconds of each phase of a step; a phase that runs twice is the sum.
class PhaseTimer {
 public:
  using Clock = std::function<double()>;       // seconds, steady
  explicit PhaseTimer(Clock clock = nullptr);  // nullptr: the system's steady clock
  void Begin(std::string_view phase);          // ends the current one
  void End();
  double Now() const { return clock_(); }
  // In the order in which phases first began; clears them.
  PhaseTimes Take();

 private:
  Clock clock_;
  PhaseTimes phases_;
  std::string running_;
  double began_ = 0;
};

}  // namespace nxdkit::trainer
