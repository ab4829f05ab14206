#include "trainer/report/bill_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "lib/base/duration.h"
#include "lib/base/text.h"
#include "trainer/report/console.h"

namespace nxdkit::trainer {
namespace {

constexpr double kMostCount = 9007199254740992;  // 2^53: doubles are whole numbers up to it

// A count that is computed in doubles.
std::string Total(double count, std::string_view noun) {
  return Counted(static_cast<int64_t>(std::llround(std::min(count, kMostCount))), noun);
}

std::string PriceText(const BillTerms& terms) {
  return fmt::format("at {} an hour x {}", *terms.price_per_hour, Counted(terms.nodes, "node"));
}

std::string RateText(const Bill& bill) {
  std::string text = HumanDuration(*bill.step_seconds);
  if (bill.step_tokens)
    text += fmt::format(" and {} tokens a step, {} tokens a second", CountText(*bill.step_tokens),
                        CountText(*bill.tokens_per_second));
  else
    text += " a step";
  return text + (bill.measured == 1 ? ", by one step"
                                    : fmt::format(", the median of {} steps", bill.measured));
}

// "3 validations and 1 checkpoint"; "" for none.
std::string PausesText(int64_t validations, int64_t saves) {
  std::string text = validations > 0 ? Counted(validations, "validation") : "";
  if (saves > 0) text += (text.empty() ? "" : " and ") + Counted(saves, "checkpoint");
  return text;
}

// The validations and checkpoints within the remaining time, and those outside it.
std::string PausesLeftText(const Bill& bill) {
  const std::string with = PausesText(*bill.validations_left - bill.uncounted_validations,
                                      *bill.saves_left - bill.uncounted_saves);
  const std::string without = PausesText(bill.uncounted_validations, bill.uncounted_saves);
  return (with.empty() ? "" : ", with " + with) +
         (without.empty() ? "" : ", without " + without + " of which no time is known yet");
}

std::string LeftText(const Bill& bill) {
  return AmountText(bill.tokens_left, bill.seconds_left, bill.cost_left) +
         (bill.cost_left ? " " + PriceText(bill.terms) : "") + PausesLeftText(bill);
}

std::string SoFarText(const Bill& bill) {
  std::string text = AmountText(bill.tokens_so_far, bill.seconds_so_far, bill.cost_so_far);
  if (bill.cost_so_far) text += " " + PriceText(bill.terms);
  if (bill.progress.clock.attempts > 1)
    text += fmt::format(", of {} attempts", bill.progress.clock.attempts);
  return text;
}

// For a run with nothing left but a validation.
std::string ValidationOnlyText(const Bill& bill) {
  const std::string text =
      "to the end: no step, " + Counted(*bill.validations_left, "validation") + "\n";
  if (!bill.seconds_left) return text + "hours: not known until a validation was measured\n";
  return text + "left: " + AmountText(std::nullopt, bill.seconds_left, bill.cost_left) +
         (bill.cost_left ? " " + PriceText(bill.terms) : "") + "\n";
}

Json OrNull(const std::optional<double>& value, double unit = 1) {
  return value && std::isfinite(*value) ? Json(*value / unit) : Json();
}

Json CountOrNull(const std::optional<double>& value) {
  return value ? Json(static_cast<int64_t>(std::llround(std::min(*value, kMostCount)))) : Json();
}

Json CountOrNull(const std::optional<int64_t>& value) { return value ? Json(*value) : Json(); }

}  // namespace

std::string AmountText(const std::optional<double>& tokens, const std::optional<double>& seconds,
                       const std::optional<double>& cost) {
  std::string text;
  if (tokens) text = CountText(*tokens) + " tokens";
  if (seconds) text += (text.empty() ? "" : " in ") + HumanDuration(*seconds);
  if (cost) text += fmt::format(", cost {:.2f}", *cost);
  return text;
}

std::string BillLeftText(const Bill& bill) {
  if (!bill.steps_left) return "";
  std::string text =
      fmt::format("to the end: {} of {}, {}, {}, at most {} tokens\n", Grouped(*bill.steps_left),
                  Counted(*bill.progress.all, "step"), Total(*bill.prompts_left, "prompt"),
                  Total(*bill.responses_left, "response"), CountText(*bill.most_tokens_left));
  if (*bill.steps_left == 0 && *bill.validations_left > 0) return ValidationOnlyText(bill);
  if (*bill.steps_left == 0) return text;
  if (!bill.seconds_left) return text + "hours: not known until a step was measured\n";
  return text + "measured: " + RateText(bill) + "\nleft: " + LeftText(bill) + "\n";
}

std::string BillAmountText(const Bill& bill) { return SoFarText(bill); }

std::string BillSoFarText(const Bill& bill) {
  const std::string text = SoFarText(bill);
  return text.empty() ? "" : "so far: " + text + "\n";
}

std::vector<std::pair<std::string, std::string>> BillRows(const Bill& bill) {
  std::vector<std::pair<std::string, std::string>> rows;
  if (const std::string text = SoFarText(bill); !text.empty()) rows.emplace_back("so far", text);
  if (bill.step_seconds) rows.emplace_back("rate", RateText(bill));
  if (bill.steps_left.value_or(0) == 0) return rows;
  rows.emplace_back(
      "to the end",
      fmt::format("{} of {}{}", Grouped(*bill.steps_left), Counted(*bill.progress.all, "step"),
                  bill.seconds_left ? ": " + LeftText(bill)
                                    : " remain; time unknown, no step was measured"));
  return rows;
}

Json BillJson(const Bill& bill) {
  return {{"steps", CountOrNull(bill.progress.all)},
          {"steps_done", bill.progress.done},
          {"steps_left", CountOrNull(bill.steps_left)},
          {"prompts_left", CountOrNull(bill.prompts_left)},
          {"responses_left", CountOrNull(bill.responses_left)},
          {"most_tokens_left", CountOrNull(bill.most_tokens_left)},
          {"validations_left", CountOrNull(bill.validations_left)},
          {"saves_left", CountOrNull(bill.saves_left)},
          {"measured_steps", bill.measured},
          {"step_seconds", OrNull(bill.step_seconds)},
          {"step_tokens", OrNull(bill.step_tokens)},
          {"tokens_per_second", OrNull(bill.tokens_per_second)},
          {"validation_seconds", OrNull(bill.validation_seconds)},
          {"save_seconds", OrNull(bill.save_seconds)},
          {"attempts", bill.progress.clock.attempts},
          {"tokens_so_far", CountOrNull(bill.tokens_so_far)},
          {"hours_so_far", OrNull(bill.seconds_so_far, kSecondsPerHour)},
          {"tokens_left", CountOrNull(bill.tokens_left)},
          {"hours_left", OrNull(bill.seconds_left, kSecondsPerHour)},
          {"uncounted_validations", bill.uncounted_validations},
          {"uncounted_saves", bill.uncounted_saves},
          {"nodes", bill.terms.nodes},
          {"price_per_hour", OrNull(bill.terms.price_per_hour)},
          {"cost_so_far", OrNull(bill.cost_so_far)},
          {"cost_left", OrNull(bill.cost_left)}};
}

}  // namespace nxdkit::trainer
