#include "trainer/report/run_log.h"

#include <fmt/core.h>

#include <chrono>
#include <cstddef>
#include <ctime>
#include <span>
#include <utility>

#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "trainer/base/characters.h"

namespace nxdkit::trainer {
namespace {

constexpr auto kTick = std::chrono::milliseconds(500);  // the line shows seconds

std::string Below(const std::string& run_folder, std::string_view name) {
  return JoinPath(JoinPath(run_folder, kRunningLogFolder), name);
}

// A crash may have cut the last line: the next one must not become part of it.
Result<bool> EndsWithinALine(const std::string& path) {
  NXDKIT_ASSIGN(const File file, File::OpenRead(path));
  if (file.bytes() == 0) return false;
  std::byte last{};
  NXDKIT_TRY(file.ReadAt(file.bytes() - 1, std::span(&last, 1)));
  return last != std::byte{'\n'};
}

}  // namespace

std::string TimeText(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts = {};
  ::gmtime_r(&time, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

int64_t SecondsNow() { return std::time(nullptr); }

std::vector<std::string> WorkerLogPaths(const std::string& run_folder, int64_t workers) {
  std::vector<std::string> paths;
  for (int64_t worker = 0; worker < workers; ++worker)
    paths.push_back(Below(run_folder, fmt::format("rollout_worker_{}.log", worker)));
  return paths;
}

Result<RunLog> RunLog::Open(const std::string& run_folder, Clock clock) {
  const std::string folder = JoinPath(run_folder, kRunningLogFolder);
  NXDKIT_TRY(MakeFolders(folder));
  RunLog log;
  log.clock_ = std::move(clock);
  const std::string path = Below(run_folder, kTrainerLog);
  NXDKIT_ASSIGN(const bool there, IsThere(path));
  if (!there) {
    NXDKIT_ASSIGN(log.file_, AppendFile::Begin(path, ""));
    return log;
  }
  NXDKIT_ASSIGN(const bool cut, EndsWithinALine(path));
  NXDKIT_ASSIGN(log.file_, AppendFile::Open(path));
  if (cut) NXDKIT_TRY(log.file_.Append("\n"));
  return log;
}

Status RunLog::Line(std::string_view text) {
  const std::string time = TimeText(clock_());
  if (text.ends_with('\n')) text.remove_suffix(1);
  std::string lines;
  for (const std::string_view line : Split(text, '\n'))
    lines += time + " " + EscapeControl(line) + "\n";
  return file_.Append(lines);
}

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
  ConsoleFor(steps).BeginPhase(step, phase);
}

void RunDisplay::Progress(int64_t done, int64_t units) {
  const std::scoped_lock lock(mutex_);
  if (console_) console_->Progress(done, units);
}

void RunDisplay::Step(int64_t step, int64_t steps, const MetricRecord& record) {
  const std::scoped_lock lock(mutex_);
  Console& console = ConsoleFor(steps);
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

Console& RunDisplay::ConsoleFor(int64_t steps) {
  if (console_) return *console_;
  ConsoleOptions options;
  if (options_.steps) options.write = options_.write;
  options.log = [this](std::string_view line) { Log(line); };
  options.terminal = options_.terminal;
  options.columns = options_.columns;
  options.total_steps = steps;
  options.terms = options_.terms;
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
