#include "tools/cli/progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "lib/base/duration.h"
#include "lib/base/process_memory.h"
#include "lib/base/text.h"

namespace nxdkit::tool {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr auto kLogCheck = std::chrono::milliseconds(1000);
constexpr double kRateSeconds = 5;
constexpr double kLeastBetweenLines = 5;
constexpr double kMostBetweenLines = 30;
constexpr int kShortestBar = 6;
constexpr int kLongestBar = 30;
constexpr std::string_view kEraseLine = "\r\x1b[K";

// "0:07 left"; "" where nothing can be said yet, or it would be days.
std::string TimeLeft(const ProgressState& state) {
  constexpr double kLongest = 100 * 3600;
  if (state.total < state.done || state.rate <= 0) return "";
  const double left = static_cast<double>(state.total - state.done) / state.rate;
  return left < kLongest ? ClockText(left) + " left" : "";
}

std::string RateText(double rate) { return HumanRate(static_cast<uint64_t>(rate), 1); }

// Rounded down: 100 only when all is done.
unsigned Percent(const ProgressState& state) {
  const auto percent = static_cast<unsigned __int128>(state.done) * 100 / state.total;
  return static_cast<unsigned>(std::min<unsigned __int128>(percent, 100));
}

// "6.88 of 15.3 GB", or with both units where they differ.
std::string DoneOfTotal(const ProgressState& state) {
  std::string done = HumanBytes(state.done);
  const std::string total = HumanBytes(state.total);
  const size_t unit = done.rfind(' ');
  const bool same = total.ends_with(done.substr(unit)) && total.size() > done.size() - unit;
  return fmt::format("{} of {}", same ? done.substr(0, unit) : done, total);
}

std::string Bar(unsigned percent, int width) {
  const int filled = static_cast<int>(percent) * width / 100;
  return "[" + std::string(static_cast<size_t>(filled), '#') +
         std::string(static_cast<size_t>(width - filled), '-') + "]";
}

// A part of the line: the one with the highest `rank` is left out first.
struct Part {
  std::string text;
  int rank;
};

constexpr int kBarRank = 2;

int WidthOf(const std::vector<Part>& parts) {
  int width = 0;
  for (const Part& part : parts) width += static_cast<int>(part.text.size()) + (width > 0 ? 2 : 0);
  return width;
}

std::vector<Part> PartsOf(const ProgressState& state) {
  std::vector<Part> parts = {{std::string(state.phase), 0}};
  if (state.total > 0) {
    parts.push_back({Bar(Percent(state), kShortestBar), kBarRank});
    parts.push_back({fmt::format("{:>3}%", Percent(state)), 1});
  }
  // A phase without bytes, such as a compiler that runs, has its time alone.
  if (state.total == 0 && state.done == 0) {
    parts.push_back({ClockText(state.seconds), 1});
    return parts;
  }
  parts.push_back({state.total > 0 ? DoneOfTotal(state) : HumanBytes(state.done), 5});
  parts.push_back({RateText(state.rate), 3});
  if (state.total > 0) parts.push_back({TimeLeft(state), 4});
  parts.push_back({HumanBytes(state.peak_rss) + " of memory", 6});
  std::erase_if(parts, [](const Part& part) { return part.text.empty(); });
  return parts;
}

}  // namespace

std::string ProgressLine(const ProgressState& state, int columns) {
  const int width = std::max(columns - 1, 1);
  std::vector<Part> parts = PartsOf(state);
  while (parts.size() > 1 && WidthOf(parts) > width)
    parts.erase(std::ranges::max_element(parts, {}, &Part::rank));
  const auto bar = std::ranges::find(parts, kBarRank, &Part::rank);
  if (bar != parts.end())
    bar->text = Bar(Percent(state), std::min(kShortestBar + width - WidthOf(parts), kLongestBar));
  std::string line;
  for (const Part& part : parts) line += (line.empty() ? "" : "  ") + part.text;
  return line.substr(0, static_cast<size_t>(width));
}

std::string ProgressLogLine(const ProgressState& state) {
  if (state.total == 0 && state.done == 0)
    return fmt::format("{}: {}", state.phase, ClockText(state.seconds));
  const std::string rate = RateText(state.rate);
  if (state.total == 0) return fmt::format("{}: {}, {}", state.phase, HumanBytes(state.done), rate);
  const std::string left = TimeLeft(state);
  return fmt::format("{}: {}%, {}, {}{}{}", state.phase, Percent(state), DoneOfTotal(state), rate,
                     left.empty() ? "" : ", ", left);
}

bool LogPace::IsDue(uint64_t done, uint64_t total, double seconds) {
  if (seconds - last_seconds_ < kLeastBetweenLines) return false;
  const uint64_t tenth =
      total == 0 ? 0 : static_cast<uint64_t>(static_cast<unsigned __int128>(done) * 10 / total);
  if (tenth == last_tenth_ && seconds - last_seconds_ < kMostBetweenLines) return false;
  last_tenth_ = tenth;
  last_seconds_ = seconds;
  return true;
}

double RecentRate::Add(double seconds, uint64_t done) {
  if (samples_.empty()) samples_.push_back({0, 0});
  samples_.push_back({seconds, done});
  while (samples_.size() > 2 && samples_[1].seconds <= seconds - kRateSeconds) samples_.pop_front();
  const Sample& first = samples_.front();
  const double elapsed = seconds - first.seconds;
  return elapsed > 0 ? static_cast<double>(done - first.done) / elapsed : 0;
}

Progress::Progress(std::string phase, uint64_t total_bytes, Screen screen)
    : phase_(std::move(phase)), total_(total_bytes), screen_(std::move(screen)) {
  if (!screen_.write) return;
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error&) {
    // No thread can be had: the work goes on without a line.
  }
}

Progress::~Progress() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ended_ = true;
  }
  ended_.notify_one();
  if (thread_.joinable()) thread_.join();
  if (is_drawn_) screen_.write(kEraseLine);
}

void Progress::WriteAbove(std::string_view line) {
  const std::lock_guard<std::mutex> lock(mutex_);
  screen_.write((is_drawn_ ? std::string(kEraseLine) : "") + std::string(line));
}

void Progress::Run() {
  const auto interval = screen_.columns ? kRedraw : kLogCheck;
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ended_.wait_for(lock, interval, [this] { return is_ended_; })) Draw();
}

void Progress::Draw() {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const ProgressState state = {.phase = phase_,
                               .done = done(),
                               .total = total_,
                               .seconds = seconds,
                               .rate = rate_.Add(seconds, done()),
                               .peak_rss = PeakRssBytes()};
  if (screen_.columns) {
    screen_.write(std::string(kEraseLine) + ProgressLine(state, screen_.columns()));
    is_drawn_ = true;
  } else if (pace_.IsDue(state.done, total_, seconds)) {
    screen_.write(fmt::format("{}: {}\n", screen_.name, ProgressLogLine(state)));
  }
}

}  // namespace nxdkit::tool
