#include "trainer/report/console.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "lib/base/duration.h"
#include "lib/base/text.h"
#include "lib/page/numbers.h"

namespace nxdkit::trainer {
namespace {

struct Column {
  std::string_view metric;
  std::string_view label;
};

// The metrics shown, in this order, if a step has them.
constexpr Column kColumns[] = {
    {"reward/overall", "reward"},       {"reward/accuracy", "accuracy"},
    {"response_length/mean", "length"}, {"response_length/clip_ratio", "clipped"},
    {"actor/entropy_loss", "entropy"},  {"actor/kl_loss", "kl"},
    {"actor/ppo_kl", "ppo_kl"},         {"rollout/log_prob_gap_mean", "gap"},
    {"critic/vf_loss", "vf_loss"},      {"critic/vf_explained_var", "explained"},
    {"actor/grad_norm", "grad"},        {"actor/lr", "lr"},
    {kTokensPerSecond, "tok/s"},
};

constexpr std::string_view kAnnounced[] = {"gen", "validation", "save_checkpoint"};
constexpr double kDrawSeconds = 0.1;
constexpr size_t kColumnsOtherwise = 80;

}  // namespace

std::string CountText(double count) {
  if (count < 1000) return fmt::format("{:.0f}", count);
  if (count < 1e6) return fmt::format("{:.3g} k", count / 1e3);
  return count < 1e9 ? fmt::format("{:.3g} M", count / 1e6) : fmt::format("{:.3g} G", count / 1e9);
}

Console::Console(ConsoleOptions options)
    : options_(std::move(options)),
      table_(options_.total_steps, options_.columns),
      timer_(options_.clock) {}

Console::~Console() { Erase(); }

std::string Console::Position(int64_t step) const {
  return options_.total_steps > 0 ? fmt::format("step {}/{}", step, options_.total_steps)
                                  : fmt::format("step {}", step);
}

// Within a step the time counts down, by at most the duration of a step. `brief`: the time alone.
std::string Console::Left(bool brief) const {
  if (!bill_.seconds_left) return "";
  const double all = *bill_.seconds_left;
  const double gone = std::min({timer_.Now() - last_done_at_, bill_.step_seconds.value_or(0), all});
  const std::string time = "  left " + ClockText(all - gone);
  if (brief || *bill_.steps_left == 0) return time;
  std::string text = time;
  if (bill_.tokens_left) text += ", " + CountText(*bill_.tokens_left) + " tokens";
  if (bill_.cost_left) text += fmt::format(", cost {:.2f}", *bill_.cost_left);
  return text;
}

void Console::Measure(int64_t step, const MetricRecord& record) {
  for (const auto& [name, value] : record) {
    if (!name.starts_with("timing_s/") && name != "perf/total_num_tokens") continue;
    std::vector<Point>& points = times_.by_name[name];
    points.push_back({step, value});
    // One more than the bill uses: it may leave out the first step.
    if (std::ssize(points) > kBillSteps + 1) points.erase(points.begin());
  }
  std::optional<int64_t> all;
  if (options_.total_steps > 0) all = options_.total_steps;
  bill_ = MakeBill(options_.terms, {step, all}, times_);
}

void Console::Line(std::string_view text) {
  if (!options_.write) return;
  Erase();
  options_.write(std::string(text) + "\n");
  Draw();
}

void Console::Log(const std::string& line) {
  if (options_.log) options_.log(line);
}

void Console::BeginPhase(int64_t step, std::string_view phase) {
  step_ = step;
  phase_ = phase;
  units_ = 0;
  done_ = 0;
  phase_began_ = timer_.Now();
  const bool announced = std::ranges::find(kAnnounced, phase) != std::end(kAnnounced);
  if (announced) Log(fmt::format("{}  {}", Position(step), phase));
  Draw();
}

void Console::Progress(int64_t done, int64_t units) {
  done_ = done;
  units_ = units;
  if (timer_.Now() - drawn_at_ >= kDrawSeconds) Draw();
}

void Console::Tick() { Draw(); }

void Console::EndPhase() {
  phase_.clear();
  Erase();
}

void Console::Draw() {
  if (!options_.write || !options_.terminal || phase_.empty()) return;
  drawn_at_ = timer_.Now();
  const double seconds = drawn_at_ - phase_began_;
  std::string line = fmt::format("{}  {}", Position(step_), phase_);
  if (units_ > 0) line += fmt::format(" {}/{}", std::min(done_, units_), units_);
  line += "  " + ClockText(seconds);
  if (units_ > 0 && done_ > 0 && done_ <= units_)
    line += " of " + ClockText(seconds * static_cast<double>(units_) / static_cast<double>(done_));
  line += Left(true);
  const size_t columns = options_.columns > 0 ? options_.columns : kColumnsOtherwise;
  line.resize(std::min(line.size(), columns - 1));  // a full line would wrap
  if (line == drawn_) return;
  options_.write("\r\x1b[K" + line);
  drawn_ = std::move(line);
}

void Console::Erase() {
  if (!drawn_.empty() && options_.write) options_.write("\r\x1b[K");
  drawn_.clear();
}

void Console::StepDone(int64_t step, const MetricRecord& record) {
  std::string line = Position(step);
  const MetricRecord shown = WithSpeed(record);
  for (const Column& column : kColumns)
    if (const double* value = FindMetric(shown, column.metric))
      line += fmt::format("  {} {}", column.label, ShortNumber(*value));
  if (const double* seconds = FindMetric(record, "perf/time_per_step"))
    line += fmt::format("  {:.1f} s", *seconds);
  phase_.clear();
  last_done_at_ = timer_.Now();
  Measure(step, record);
  Log(line + Left(false));
  for (const std::string& row : table_.Step(step, record, {bill_.seconds_left, bill_.cost_left}))
    Line(row);
}

void Console::Validation(int64_t step, const MetricRecord& record) {
  std::string line = Position(step) + "  validation";
  for (const auto& [name, value] : record)
    if (name.starts_with("val/"))
      line += fmt::format("  {} {}", EscapeControl(name.substr(4)), ShortNumber(value));
  if (!FindMetric(record, "timing_s/step")) Measure(step, record);  // else StepDone did
  Log(line);
  Line(table_.Validation(step, record));
}

}  // namespace nxdkit::trainer
