#include "trainer/config/check_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/text.h"
#include "trainer/config/key_table.h"
#include "trainer/rollout/sampling.h"

namespace nxdkit::trainer {
namespace {

constexpr double kMostInteger = 2147483647;  // so that products of two fit

// The engine computes with floats.
bool IsTemperature(double x) {
  static_assert(kMinTemperature == 1e-3f);
  const float temperature = static_cast<float>(x);
  return temperature >= kMinTemperature && temperature < HUGE_VALF;
}

struct LimitRow {
  KeyLimit limit;
  bool (*holds)(double);
  const char* text;
};

constexpr LimitRow kLimits[] = {
    {KeyLimit::kPositive, [](double x) { return x > 0; }, "more than 0"},
    {KeyLimit::kNotNegative, [](double x) { return x >= 0; }, "0 or more"},
    {KeyLimit::kAboveOne, [](double x) { return x > 1; }, "more than 1"},
    {KeyLimit::kFraction, [](double x) { return x >= 0 && x <= 1; }, "from 0 to 1"},
    {KeyLimit::kInside, [](double x) { return x > 0 && x < 1; }, "between 0 and 1"},
    {KeyLimit::kBeta, [](double x) { return x >= 0 && x < 1; }, "at least 0 and less than 1"},
    {KeyLimit::kMass, [](double x) { return static_cast<float>(x) > 0 && x <= 1; },
     "more than 0 and at most 1"},
    {KeyLimit::kTemperature, IsTemperature, "from 0.001 to 3.4e38"},
    {KeyLimit::kTemperatureOrZero, [](double x) { return x == 0 || IsTemperature(x); },
     "0 (the most likely token) or from 0.001 to 3.4e38"},
    {KeyLimit::kSeconds, [](double x) { return x >= 1 && x <= 86400; }, "from 1 to 86400 (a day)"},
    {KeyLimit::kUnlimited, [](double x) { return x == -1 || x > 0; }, "-1 or more than 0"},
};

// The numbers of a slot; none for other types and for null.
std::vector<double> Numbers(const ConfigSlot& slot, bool* integers) {
  *integers = true;
  if (const auto* value = std::get_if<int64_t*>(&slot)) return {static_cast<double>(**value)};
  if (const auto* value = std::get_if<std::optional<int64_t>*>(&slot))
    return **value ? std::vector<double>{static_cast<double>(***value)} : std::vector<double>{};
  *integers = false;
  if (const auto* value = std::get_if<double*>(&slot)) return {**value};
  if (const auto* value = std::get_if<std::optional<double>*>(&slot))
    return **value ? std::vector<double>{***value} : std::vector<double>{};
  if (const auto* value = std::get_if<std::array<double, 2>*>(&slot))
    return {(**value)[0], (**value)[1]};
  return {};
}

std::vector<std::string> Words(const ConfigSlot& slot) {
  if (const auto* value = std::get_if<std::string*>(&slot)) return {**value};
  if (const auto* value = std::get_if<std::optional<std::string>*>(&slot))
    return **value ? std::vector<std::string>{***value} : std::vector<std::string>{};
  if (const auto* value = std::get_if<std::vector<std::string>*>(&slot)) return **value;
  return {};
}

bool CheckLimit(Checker& check, const ConfigKey& key, const ConfigSlot& slot) {
  bool integers = false;
  bool good = true;
  for (const double number : Numbers(slot, &integers)) {
    const auto row = std::ranges::find(kLimits, key.limit, &LimitRow::limit);
    if (row != std::end(kLimits) && !row->holds(number)) {
      check.Problem(key.path, fmt::format("{} must be {}", number, row->text));
      good = false;
    } else if (integers && number > kMostInteger) {
      check.Problem(key.path, fmt::format("{} is over the limit of {}", number, kMostInteger));
      good = false;
    }
  }
  return good;
}

// Values with a reason of their own.
constexpr struct {
  std::string_view path;
  std::string_view word;
  std::string_view reason;
} kRefused[] = {
    {"algorithm.kl_penalty", "full",
     "full needs the log-probabilities of the whole vocabulary; with those of the sampled tokens "
     "it sums over the wrong dimension"},
};

void CheckWords(Checker& check, const ConfigKey& key, const ConfigSlot& slot) {
  const std::vector<std::string> known = SplitWords(key.words);
  if (known.empty()) return;
  for (const std::string& word : Words(slot)) {
    if (std::ranges::find(known, word) != known.end()) continue;
    std::string message = fmt::format("\"{}\" is not known", EscapeControl(word));
    for (const auto& row : kRefused)
      if (row.path == key.path && row.word == word) message = row.reason;
    const auto near = ClosestWord(word, known);
    std::string fix = fmt::format("known: {}", fmt::join(known, ", "));
    if (near) fix = fmt::format("did you mean {}? {}", *near, fix);
    check.Problem(key.path, std::move(message), std::move(fix));
  }
}

void CheckUse(Checker& check, const ConfigKey& key, const ConfigSlot& slot,
              const ConfigSlot& built_in) {
  const std::string text = SlotText(slot);
  if (key.use == KeyUse::kOnly && text != key.words)
    check.Problem(key.path, fmt::format("{} is not supported: {}", text, key.text),
                  fmt::format("set it to {}", key.words), Errc::kUnsupported);
  const bool set = check.IsSet(key.path);
  if (key.use == KeyUse::kNoEffect && set && text != SlotText(built_in))
    check.Note(fmt::format("{} = {} has no effect: {}", key.path, text, key.text));
}

}  // namespace

bool CheckTable(Checker& check) {
  Config config = check.config();
  Config defaults;
  bool good = true;
  for (const ConfigKey& key : ConfigKeys()) {
    const ConfigSlot slot = key.slot(config);
    good = CheckLimit(check, key, slot) && good;
    if (key.use == KeyUse::kUsed) CheckWords(check, key, slot);
    CheckUse(check, key, slot, key.slot(defaults));
  }
  return good;
}

}  // namespace nxdkit::trainer
