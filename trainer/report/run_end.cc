#include "trainer/report/run_end.h"

#include <fmt/core.h>

#include <cmath>

#include "lib/base/text.h"
#include "lib/page/numbers.h"
#include "trainer/report/bill_text.h"
#include "trainer/report/console.h"

namespace nxdkit::trainer {
namespace {

// A path as a word for a shell.
std::string ShellWord(const std::string& path) {
  constexpr std::string_view kPlain = "_-./:@%+,=";
  bool plain = !path.empty();
  for (const char c : path) plain &= IsAlnum(c) || kPlain.find(c) != kPlain.npos;
  if (plain) return path;
  std::string word = "'";
  for (const char c : path) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return EscapeControl(word + "'");
}

}  // namespace

std::optional<Point> BestValidation(const MetricSeries& metrics) {
  std::optional<Point> best;
  const auto scores = metrics.by_name.find("val/reward_score");
  if (scores == metrics.by_name.end()) return best;
  for (const Point& point : scores->second)
    if (std::isfinite(point.value) && (!best || point.value > best->value)) best = point;
  return best;
}

std::string RunEndText(const RunEnd& end, const Bill& bill) {
  std::string text = fmt::format("{} done, in {}", Counted(bill.progress.done, "step"), end.run);
  const std::string amount = BillAmountText(bill);
  text += (amount.empty() ? "" : ": " + amount) + "\n";
  if (end.best)
    text += fmt::format("best validation: reward_score {} at step {}\n",
                        ShortNumber(end.best->value), end.best->step);
  text += "report: grpo-train report " + ShellWord(end.run);
  if (!end.tensorboard.empty())
    text += "  curves: tensorboard --logdir " + ShellWord(end.tensorboard);
  if (!end.checkpoint.empty()) text += "  checkpoint: " + ShellWord(end.checkpoint);
  return text + "\n";
}

}  // namespace nxdkit::trainer
