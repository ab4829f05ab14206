#include "trainer/algo/advantage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "trainer/algo/names.h"

namespace nxdkit::trainer {
namespace {

constexpr Named<AdvantageEstimator> kNames[] = {
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
    if (static_cast<int64_t>(members.size()) != options.samples)
      return Error(Errc::kCorrupt, fmt::format("the group of row {} has {} rows, expected {}",
                                               members[0], members.size(), options.samples))
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

// What each sample of a group is worth, from the scores of all.
using GroupRule = std::vector<double> (*)(const std::vector<double>& scores);

double Mean(const std::vector<double>& scores) {
  double sum = 0;
  for (const double score : scores) sum += score;
  return sum / static_cast<double>(scores.size());
}

double Deviation(const std::vector<double>& scores) {
  const double mean = Mean(scores);
  double squares = 0;
  for (const double score : scores) squares += (score - mean) * (score - mean);
  return std::sqrt(squares / static_cast<double>(scores.size() - 1));
}

std::vector<double> Grpo(const std::vector<double>& scores) {
  std::vector<double> out(scores.size());
  const double mean = Mean(scores);
  const double deviation = Deviation(scores) + kGroupEpsilon;
  for (size_t i = 0; i < scores.size(); ++i) out[i] = (scores[i] - mean) / deviation;
  return out;
}

std::vector<double> GrpoPassk(const std::vector<double>& scores) {
  std::vector<double> sorted = scores;
  std::ranges::sort(sorted, std::greater<>());
  const auto best = std::ranges::max_element(scores);
  std::vector<double> out(scores.size());
  out[static_cast<size_t>(best - scores.begin())] =
      (sorted[0] - sorted[1]) / (Deviation(scores) + kGroupEpsilon);
  return out;
}

std::vector<double> Rloo(const std::vector<double>& scores) {
  std::vector<double> out(scores.size());
  const double count = static_cast<double>(scores.size());
  const double sum = Mean(scores) * count;
  for (size_t i = 0; i < scores.size(); ++i) out[i] = scores[i] - (sum - scores[i]) / (count - 1);
  return out;
}

void ByGroup(const Groups& groups, Rows rows, GroupRule rule) {
  std::vector<double> scores;
  for (const auto& [group, members] : groups) {
    scores.clear();
    for (const size_t row : members) scores.push_back(Score(rows[row]));
    const auto [least, most] = std::ranges::minmax(scores);
    const std::vector<double> out =
        least == most ? std::vector<double>(scores.size()) : rule(scores);
    for (size_t i = 0; i < members.size(); ++i) SetAll(rows[members[i]], out[i]);
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

// raw[i][t] -> advantages with mean 0 and variance 1 over all tokens of the batch.
void Whiten(const std::vector<std::vector<double>>& raw, Rows rows) {
  double count = 0;
  double sum = 0;
  for (const auto& row : raw) {
    count += static_cast<double>(row.size());
    for (const double x : row) sum += x;
  }
  const double mean = sum / (count + kWhitenEpsilon);
  double squares = 0;
  for (const auto& row : raw)
    for (const double x : row) squares += (x - mean) * (x - mean);
  double variance = squares / (count + kWhitenEpsilon);
  if (count > 1) variance *= count / (count - 1);
  const double scale = 1 / std::sqrt(variance + kWhitenEpsilon);
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t t = 0; t < raw[i].size(); ++t)
      rows[i].advantages[t] = static_cast<float>((raw[i][t] - mean) * scale);
}

void ReinforcePlusPlus(const AdvantageOptions& options, Rows rows) {
  std::vector<std::vector<double>> raw(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    raw[i].resize(rows[i].rewards.size());
    double run = 0;
    for (size_t t = raw[i].size(); t-- > 0;) {
      run = rows[i].rewards[t] + options.gamma * run;
      raw[i][t] = run;
      rows[i].returns[t] = static_cast<float>(run);
    }
  }
  Whiten(raw, rows);
}

void Gae(const AdvantageOptions& options, Rows rows) {
  std::vector<std::vector<double>> raw(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const AdvantageRow& row = rows[i];
    raw[i].resize(row.rewards.size());
    double next_value = 0;
    double run = 0;
    for (size_t t = raw[i].size(); t-- > 0;) {
      const double delta = row.rewards[t] + options.gamma * next_value - row.values[t];
      run = delta + options.gamma * options.lambda * run;
      next_value = row.values[t];
      raw[i][t] = run;
      row.returns[t] = static_cast<float>(run + row.values[t]);
    }
  }
  Whiten(raw, rows);
}

}  // namespace

Result<AdvantageEstimator> ParseAdvantageEstimator(std::string_view name) {
  return FindNamed(kNames, "algorithm.adv_estimator", name);
}

bool ComparesGroups(AdvantageEstimator estimator) {
  return estimator == AdvantageEstimator::kGrpo || estimator == AdvantageEstimator::kGrpoPassk ||
         estimator == AdvantageEstimator::kRloo;
}

Status ComputeAdvantages(const AdvantageOptions& options, std::span<const AdvantageRow> rows) {
  if (ComparesGroups(options.estimator) && options.samples < 2)
    return Error(Errc::kUsage,
                 fmt::format("{} sample per prompt: this estimator compares samples and needs at "
                             "least 2",
                             options.samples))
        .member("worker.rollout.n");
  for (size_t i = 0; i < rows.size(); ++i) NXDKIT_TRY(CheckRow(options, i, rows[i]));
  NXDKIT_ASSIGN(const Groups groups, FindGroups(options, rows));
  switch (options.estimator) {
    case AdvantageEstimator::kGrpo:
      ByGroup(groups, rows, Grpo);
      break;
    case AdvantageEstimator::kGrpoPassk:
      ByGroup(groups, rows, GrpoPassk);
      break;
    case AdvantageEstimator::kRloo:
      ByGroup(groups, rows, Rloo);
      break;
    case AdvantageEstimator::kRemax:
      Remax(rows);
      break;
    case AdvantageEstimator::kReinforcePlusPlus:
      ReinforcePlusPlus(options, rows);
      break;
    case AdvantageEstimator::kGae:
      Gae(options, rows);
      break;
  }
  return OkStatus();
}

}  // namespace nxdkit::trainer
