// Collects what the rules find. Internal to the check_*.cc files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trainer/config/check.h"

namespace nxdkit::trainer {

class Checker {
 public:
  explicit Checker(const LoadedConfig& loaded) : loaded_(loaded) {}

  const Config& config() const { return loaded_.config; }
  const LoadedConfig& loaded() const { return loaded_; }

  void Problem(std::string_view key, std::string message, std::string fix = "",
               Errc code = Errc::kUsage) {
    std::string place =
        loaded_.SourceOf(key).kind == SourceKind::kDefault ? loaded_.path : loaded_.PlaceOf(key);
    problems.push_back(
        {code, std::string(key), std::move(message), std::move(fix), std::move(place)});
  }
  void Note(std::string_view text) { notes.emplace_back(text); }

  std::vector<ConfigProblem> problems;
  std::vector<std::string> notes;

 private:
  const LoadedConfig& loaded_;
};

// check_table.cc: limits, words and use of every key. False when a number is outside its limits,
// so that arithmetic with it would mean nothing.
bool CheckTable(Checker& check);
void CheckFiles(Checker& check);
// check_cores.cc, check_batch.cc, check_algorithm.cc
void CheckCores(Checker& check, const RunPlan& plan);
// `tp` and `positions`: what the engine is compiled for; nullopt: not known.
void CheckCompiled(Checker& check, const RunPlan& plan, std::optional<int64_t> tp,
                   std::optional<int64_t> positions);
void CheckBatches(Checker& check, const RunPlan& plan);
void CheckAlgorithm(Checker& check);
void CheckReward(Checker& check);

// Up to 8 of the numbers from `most` down to 1 that pass, as "64, 32, 16, ..."; "" when none does.
template <typename Passes>
std::string LegalValues(int64_t most, Passes passes) {
  constexpr int kShown = 8;
  constexpr int64_t kTried = 1 << 16;
  std::string text;
  int shown = 0;
  for (int64_t value = most; value > 0 && value > most - kTried; --value) {
    if (!passes(value)) continue;
    if (shown++ == kShown) return text + ", ...";
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  }
  return text;
}

}  // namespace nxdkit::trainer
