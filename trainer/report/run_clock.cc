#include "trainer/report/run_clock.h"

#include <algorithm>
#include <chrono>

#include "lib/base/text.h"
#include "trainer/report/run_log.h"

namespace nxdkit::trainer {
namespace {

constexpr std::string_view kTimeShape = "dddd-dd-ddTdd:dd:ddZ";

// Digits only, at most four.
int NumberAt(std::string_view text, size_t at, size_t count) {
  int number = 0;
  for (const char c : text.substr(at, count)) number = number * 10 + (c - '0');
  return number;
}

// The 0.2.0 of "grpo-train 0.2.0 begins, process 7: ..."; nullopt for other lines.
std::optional<std::string_view> VersionThatBegins(std::string_view line) {
  constexpr std::string_view kProgram = "grpo-train ";
  const size_t end = line.find(kAttemptBegins);
  if (!line.starts_with(kProgram) || end == line.npos) return std::nullopt;
  return line.substr(kProgram.size(), std::max(end, kProgram.size()) - kProgram.size());
}

// The 50 of "step 3/50  gen".
std::optional<int64_t> StepsIn(std::string_view line) {
  constexpr std::string_view kStep = "step ";
  if (!line.starts_with(kStep)) return std::nullopt;
  const std::string_view word = line.substr(kStep.size(), line.find("  ") - kStep.size());
  const size_t slash = word.find('/');
  if (slash == word.npos || !ParseNumber<int64_t>(word.substr(0, slash))) return std::nullopt;
  const auto steps = ParseNumber<int64_t>(word.substr(slash + 1));
  return steps && *steps > 0 ? steps : std::nullopt;
}

}  // namespace

std::optional<int64_t> ParseTimeText(std::string_view text) {
  if (text.size() != kTimeShape.size()) return std::nullopt;
  for (size_t i = 0; i < text.size(); ++i)
    if (kTimeShape[i] == 'd' ? !IsDigit(text[i]) : text[i] != kTimeShape[i]) return std::nullopt;
  const std::chrono::year_month_day day{
      std::chrono::year(NumberAt(text, 0, 4)),
      std::chrono::month(static_cast<unsigned>(NumberAt(text, 5, 2))),
      std::chrono::day(static_cast<unsigned>(NumberAt(text, 8, 2)))};
  const int hour = NumberAt(text, 11, 2), minute = NumberAt(text, 14, 2);
  const int second = NumberAt(text, 17, 2);
  if (!day.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  const int64_t days = std::chrono::sys_days(day).time_since_epoch().count();
  return ((days * 24 + hour) * 60 + minute) * 60 + second;
}

RunClock ParseRunningLog(std::string_view text) {
  RunClock clock;
  std::optional<int64_t> begun, last;
  const auto end_attempt = [&] {
    if (begun && last) clock.seconds += static_cast<double>(std::max<int64_t>(0, *last - *begun));
  };
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const auto time = ParseTimeText(line.substr(0, kTimeShape.size()));
    if (!time || line.size() <= kTimeShape.size()) continue;
    const std::string_view told = line.substr(kTimeShape.size() + 1);
    const auto version = VersionThatBegins(told);
    if (version) clock.version = *version;
    if (version || !begun) {
      end_attempt();
      begun = time;
      ++clock.attempts;
    }
    last = time;
    if (!clock.first) clock.first = time;
    clock.last = time;
    if (const auto steps = StepsIn(told)) clock.steps = steps;
  }
  end_attempt();
  return clock;
}

}  // namespace nxdkit::trainer
