#include "trainer/algo/advantage.h"

#include <fmt/core.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "lib/base/errors.h"
#include "trainer/algo/names.h"

namespace nxdkit::trainer {
namespace {

constexpr Named<AdvantageEstimator> kEstimatorNames[] = {
    {"gae", AdvantageEstimator::kGae},
    {"grpo", AdvantageEstimator::kGrpo},
    {"grpo_passk", AdvantageEstimator::kGrpoPassk},
    {"reinforce_plus_plus", AdvantageEstimator::kReinforcePlusPlus},
    {"remax", AdvantageEstimator::kRemax},
    {"rloo", AdvantageEstimator::kRloo},
};

constexpr double kGroupEpsilon = 1e-6;   // added to the standard deviation of a group
constexpr double kWhitenEpsilon = 1e-8;  // added to the variance, and to counts of tokens

using Rows = std::span<const AdvantageRow>;
// Indices of rows by group.
using Groups = std::map<uint64_t, std::vector<size_t>>;

Error RowError(size_t row, std::string message) {
  return Error(Errc::kCorrupt, std::move(message)).member(fmt::format("row {}", row));
}

Status CheckFinite(size_t row, const char* what, std::span<const float> values) {
  for (size_t t = 0; t < values.size(); ++t)
    if (!std::isfinite(values[t]))
      return RowError(row, fmt::format("the {} of token {} is {}, expected a finite number", what,
                                       t, values[t]));
  return OkStatus();
}

Status CheckRow(const AdvantageOptions& options, size_t index, const AdvantageRow& row) {
  const size_t tokens = row.rewards.size();
  const bool critic = options.estimator == AdvantageEstimator::kGae;
  if (row.advantages.size() != tokens || row.returns.size() != tokens ||
      (critic && row.values.size() != tokens))
    return RowError(
        index, fmt::format("{} rewards, but room for {} advantages and {} returns, and "
                           "{} values",
                           tokens, row.advantages.size(), row.returns.size(), row.values.size()));
  if (!std::isfinite(row.baseline))
    return RowError(index,
                    fmt::format("the baseline is {}, expected a finite number", row.baseline));
  NXDKIT_TRY(CheckFinite(index, "reward", row.rewards));
  return critic ? CheckFinite(index, "value", row.values) : OkStatus();
}

Result<Groups> FindGroups(const AdvantageOptions& options, Rows rows) {
  Groups groups;
  for (size_t i = 0; i < rows.size(); ++i) groups[rows[i].group].push_back(i);
  for (const auto& [group, members] : groups)
    if (std::ssize(members) != options.samples)
      return Corrupt("the group of row {} has {} rows, expected {}", members[0], members.size(),
                     options.samples)
          .member(fmt::format("group {}", group));
  return groups;
}

double Score(const AdvantageRow& row) {
  double sum = 0;
  for (const float reward : row.rewards) sum += reward;
  return sum;
}

void SetAll(const AdvantageRow& row, double advantage) {
  std::ranges::fill(row.advantages, static_cast<float>(advantage));
  std::ranges::fill(row.returns, static_cast<float>(advantage));
}

// The worth of each sample of a group, from the scores of all: at least two, not all equal.
using Array = Eigen::ArrayXd;
using GroupRule = Array (*)(const Array& scores);

double Deviation(const Array& scores) {
  return std::sqrt((scores - scores.mean()).square().sum() /
                   static_cast<double>(scores.size() - 1));
}

Array Grpo(const Array& scores) {
  return (scores - scores.mean()) / (Deviation(scores) + kGroupEpsilon);
}

// The best sample gets its lead over the second best.
Array GrpoPassk(const Array& scores) {
  Eigen::Index best = 0;
  const double highest = scores.maxCoeff(&best);
  Array others = scores;
  others[best] = -std::numeric_limits<double>::infinity();
  Array out = Array::Zero(scores.size());
  out[best] = (highest - others.maxCoeff()) / (Deviation(scores) + kGroupEpsilon);
  return out;
}

Array Rloo(const Array& scores) {
  return scores - (scores.sum() - scores) / static_cast<double>(scores.size() - 1);
}

// nullptr for estimators that do not compare the samples of a prompt.
GroupRule GroupRuleOf(AdvantageEstimator estimator) {
  return estimator == AdvantageEstimator::kGrpo        ? Grpo
         : estimator == AdvantageEstimator::kGrpoPassk ? GrpoPassk
         : estimator == AdvantageEstimator::kRloo      ? Rloo
                                                       : nullptr;
}

void ByGroup(const Groups& groups, Rows rows, GroupRule rule) {
  for (const auto& [group, members] : groups) {
    Array scores(static_cast<Eigen::Index>(members.size()));
    for (size_t i = 0; i < members.size(); ++i)
      scores[static_cast<Eigen::Index>(i)] = Score(rows[members[i]]);
    const bool equal = scores.minCoeff() == scores.maxCoeff();
    const Array out = equal ? Array(Array::Zero(scores.size())) : rule(scores);
    for (size_t i = 0; i < members.size(); ++i)
      SetAll(rows[members[i]], out[static_cast<Eigen::Index>(i)]);
  }
}

void Remax(Rows rows) {
  for (const AdvantageRow& row : rows) {
    const double advantage = Score(row) - row.baseline;
    double run = 0;
    for (size_t t = row.rewards.size(); t-- > 0;) {
      run += row.rewards[t];
      row.returns[t] = static_cast<float>(run);
      row.advantages[t] = static_cast<float>(advantage);
    }
  }
}

// An array with one element per token of all rows, row after row.
Array ForTokens(Rows rows) {
  size_t count = 0;
  for (const AdvantageRow& row : rows) count += row.rewards.size();
  return Array::Zero(static_cast<Eigen::Index>(count));
}

// Raw advantages as ForTokens -> advantages with mean 0 and variance 1 over all tokens.
void Whiten(const Array& raw, Rows rows) {
  const double count = static_cast<double>(raw.size());
  const double mean = raw.sum() / (count + kWhitenEpsilon);
  double variance = (raw - mean).square().sum() / (count + kWhitenEpsilon);
  if (count > 1) variance *= count / (count - 1);
  const double scale = 1 / std::sqrt(variance + kWhitenEpsilon);
  const double* next = raw.data();
  for (const AdvantageRow& row : rows)
    for (float& advantage : row.advantages)
      advantage = static_cast<float>((*next++ - mean) * scale);
}

void ReinforcePlusPlus(const AdvantageOptions& options, Rows rows) {
  Array raw = ForTokens(rows);
  double* first = raw.data();
  for (const AdvantageRow& row : rows) {
    double run = 0;
    for (size_t t = row.rewards.size(); t-- > 0;) {
      run = row.rewards[t] + options.gamma * run;
      first[t] = run;
      row.returns[t] = static_cast<float>(run);
    }
    first += row.rewards.size();
  }
  Whiten(raw, rows);
}

void Gae(const AdvantageOptions& options, Rows rows) {
  Array raw = ForTokens(rows);
  double* first = raw.data();
  for (const AdvantageRow& row : rows) {
    double next_value = 0;
    double run = 0;
    for (size_t t = row.rewards.size(); t-- > 0;) {
      const double delta = row.rewards[t] + options.gamma * next_value - row.values[t];
      run = delta + options.gamma * options.lambda * run;
      next_value = row.values[t];
      first[t] = run;
      row.returns[t] = static_cast<float>(run + row.values[t]);
    }
    first += row.rewards.size();
  }
  Whiten(raw, rows);
}

}  // namespace

Result<AdvantageEstimator> ParseAdvantageEstimator(std::string_view name) {
  return FindNamed(kEstimatorNames, "algorithm.adv_estimator", name);
}

Status ComputeAdvantages(const AdvantageOptions& options, std::span<const AdvantageRow> rows) {
  const GroupRule rule = GroupRuleOf(options.estimator);
  if (rule && options.samples < 2)
    return BadUsage("{} sample per prompt: this estimator compares samples and needs at least 2",
                    options.samples)
        .member("worker.rollout.n");
  for (size_t i = 0; i < rows.size(); ++i) NXDKIT_TRY(CheckRow(options, i, rows[i]));
  NXDKIT_ASSIGN(const Groups groups, FindGroups(options, rows));
  if (rule) ByGroup(groups, rows, rule);
  if (options.estimator == AdvantageEstimator::kRemax) Remax(rows);
  if (options.estimator == AdvantageEstimator::kReinforcePlusPlus) ReinforcePlusPlus(options, rows);
  if (options.estimator == AdvantageEstimator::kGae) Gae(options, rows);
  return OkStatus();
}

}  // namespace nxdkit::trainer
