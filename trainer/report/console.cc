#include "trainer/report/console.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "lib/base/text.h"

namespace nxdkit::trainer {
namespace {

struct Column {
  std::string_view metric;
  std::string_view label;
};

// What is watched, in this order, as far as a step has it.
constexpr Column kColumns[] = {
    {"reward/overall", "reward"},       {"reward/accuracy", "accuracy"},
    {"response_length/mean", "length"}, {"response_length/clip_ratio", "clipped"},
    {"actor/entropy_loss", "entropy"},  {"actor/kl_loss", "kl"},
    {"actor/ppo_kl", "ppo_kl"},         {"rollout/log_prob_gap_mean", "gap"},
    {"critic/vf_loss", "vf_loss"},      {"critic/vf_explained_var", "explained"},
    {"actor/grad_norm", "grad"},        {"actor/lr", "lr"},
    {"perf/throughput", "tok/s"},
};

constexpr std::string_view kAnnounced[] = {"gen", "validation", "save_checkpoint"};
constexpr double kDrawSeconds = 0.1;
constexpr size_t kMostColumns = 99;  // of the status line

}  // namespace

std::string DurationText(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "-";
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string ShortNumber(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value) || value == 0) return fmt::format("{}", value);
  if (size < 1e6 && value == std::trunc(value)) return fmt::format("{:.0f}", value);
  if (size < 1e-3) return fmt::format("{:.1e}", value);
  if (size < 10) return fmt::format("{:.4f}", value);
  if (size < 1000) return fmt::format("{:.1f}", value);
  return size < 1e6 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

Console::Console(ConsoleOptions options) : options_(std::move(options)), timer_(options_.clock) {
  began_ = timer_.Now();
}

Console::~Console() { Erase(); }

std::string Console::Position(int64_t step) const {
  return options_.total_steps > 0 ? fmt::format("step {}/{}", step, options_.total_steps)
                                  : fmt::format("step {}", step);
}

// By the steps this process has made: those before a resume took another time. Within a step it
// runs down, by no more than a step takes.
std::string Console::Left() const {
  const int64_t made = last_step_ - options_.first_step;
  if (made < 1 || options_.total_steps < last_step_) return "";
  const double each = (last_done_at_ - began_) / static_cast<double>(made);
  const double all = each * static_cast<double>(options_.total_steps - last_step_);
  const double gone = std::min({timer_.Now() - last_done_at_, each, all});
  return "  left " + DurationText(all - gone);
}

void Console::Line(std::string_view text) {
  if (!options_.write) return;
  Erase();
  options_.write(std::string(text) + "\n");
  Draw();
}

void Console::Say(const std::string& line) {
  if (options_.log) options_.log(line);
  Line(line);
}

void Console::BeginPhase(int64_t step, std::string_view phase) {
  step_ = step;
  phase_ = phase;
  units_ = 0;
  done_ = 0;
  phase_began_ = timer_.Now();
  const bool announced = std::ranges::find(kAnnounced, phase) != std::end(kAnnounced);
  const std::string line = fmt::format("{}  {}", Position(step), phase);
  if (announced && options_.log) options_.log(line);
  if (options_.terminal)
    Draw();
  else if (announced)
    Line(line);
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
  line += "  " + DurationText(seconds);
  if (units_ > 0 && done_ > 0 && done_ <= units_)
    line +=
        " of " + DurationText(seconds * static_cast<double>(units_) / static_cast<double>(done_));
  line += Left();
  line.resize(std::min(line.size(), kMostColumns));
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
  for (const Column& column : kColumns)
    if (const double* value = FindMetric(record, column.metric))
      line += fmt::format("  {} {}", column.label, ShortNumber(*value));
  if (const double* seconds = FindMetric(record, "perf/time_per_step"))
    line += fmt::format("  {:.1f} s", *seconds);
  phase_.clear();
  last_step_ = step;
  last_done_at_ = timer_.Now();
  Say(line + Left());
}

void Console::Validation(int64_t step, const MetricRecord& record) {
  std::string line = Position(step) + "  validation";
  for (const auto& [name, value] : record)
    if (name.starts_with("val/"))
      line += fmt::format("  {} {}", EscapeControl(name.substr(4)), ShortNumber(value));
  Say(line);
}

}  // namespace nxdkit::trainer
