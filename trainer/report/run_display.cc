#include "trainer/report/run_display.h"

#include <chrono>
#include <utility>

namespace nxdkit::trainer {
namespace {

constexpr auto kTick = std::chrono::milliseconds(500);  // the line shows seconds

}  // namespace

RunDisplay::RunDisplay(DisplayOptions options) : options_(std::move(options)) {}

void RunDisplay::LogTo(RunLog log) {
  const std::scoped_lock lock(mutex_);
  log_.emplace(std::move(log));
  for (const std::string& line : std::exchange(early_, {})) Log(line);
}

void RunDisplay::Line(std::string_view line) {
  const std::scoped_lock lock(mutex_);
  Show(line);
  Log(line);
}

void RunDisplay::Record(std::string_view line) {
  const std::scoped_lock lock(mutex_);
  Log(line);
}

void RunDisplay::BeginPhase(int64_t step, int64_t steps, const std::string& phase) {
  const std::scoped_lock lock(mutex_);
  ConsoleFor(step, steps).BeginPhase(step, phase);
}

void RunDisplay::Progress(int64_t done, int64_t units) {
  const std::scoped_lock lock(mutex_);
  if (console_) console_->Progress(done, units);
}

void RunDisplay::Step(int64_t step, int64_t steps, const MetricRecord& record) {
  const std::scoped_lock lock(mutex_);
  Console& console = ConsoleFor(step, steps);
  console.EndPhase();
  if (FindMetric(record, "timing_s/step")) console.StepDone(step, record);
  if (FindMetric(record, "val/reward_score")) console.Validation(step, record);
}

void RunDisplay::Close() {
  ticker_.request_stop();
  if (ticker_.joinable()) ticker_.join();
  const std::scoped_lock lock(mutex_);
  console_.reset();
}

Console& RunDisplay::ConsoleFor(int64_t step, int64_t steps) {
  if (console_) return *console_;
  ConsoleOptions options;
  if (options_.steps) options.write = options_.write;
  options.log = [this](std::string_view line) { Log(line); };
  options.terminal = options_.terminal;
  options.total_steps = steps;
  options.first_step = step > 0 ? step - 1 : 0;
  const bool draws = options.write && options.terminal;
  if (draws) ticker_ = std::jthread([this](const std::stop_token& stop) { Tick(stop); });
  return console_.emplace(std::move(options));
}

void RunDisplay::Show(std::string_view line) {
  if (!options_.write) return;
  if (console_ && options_.steps)
    console_->Line(line);
  else
    options_.write(std::string(line) + "\n");
}

void RunDisplay::Log(std::string_view line) {
  if (!log_) {
    early_.emplace_back(line);
    return;
  }
  const Status written = log_->Line(line);
  if (written.ok() || std::exchange(log_failed_, true)) return;
  Show("the run continues without its running_log: " + written.error().ToString());
}

void RunDisplay::Tick(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (console_) console_->Tick();
    wake_.wait_for(lock, stop, kTick, [] { return false; });
  }
}

}  // namespace nxdkit::trainer
