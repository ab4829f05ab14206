#include "lib/base/progress.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "lib/base/text.h"

namespace nxdkit {
namespace {

constexpr std::chrono::nanoseconds kRedraw = std::chrono::milliseconds(100);
constexpr std::string_view kEraseLine = "\r\x1b[K";

std::string Duration(uint64_t seconds) {
  const uint64_t hours = seconds / 3600;
  const uint64_t minutes = seconds / 60 % 60;
  if (hours == 0) return fmt::format("{}:{:02}", minutes, seconds % 60);
  return fmt::format("{}:{:02}:{:02}", hours, minutes, seconds % 60);
}

// "-" while the time is unknown, or if it would be days.
std::string TimeLeft(uint64_t done, uint64_t total, double seconds) {
  constexpr double kLongest = 100 * 3600;
  if (done == 0 || total < done) return "-";
  const double left = seconds * static_cast<double>(total - done) / static_cast<double>(done) + 0.5;
  return left < kLongest ? Duration(static_cast<uint64_t>(left)) : "-";
}

}  // namespace

Progress::Progress(std::string label, uint64_t total_bytes, Sink sink)
    : label_(std::move(label)), total_(total_bytes), start_(Clock::now()), sink_(std::move(sink)) {
  // A run that is over within one interval draws nothing.
  next_draw_ns_ = sink_ ? kRedraw.count() : INT64_MAX;
}

Progress::~Progress() { Finish(); }

void Progress::Add(uint64_t bytes) {
  done_.fetch_add(bytes, std::memory_order_relaxed);
  int64_t due = next_draw_ns_.load(std::memory_order_relaxed);
  if (due == INT64_MAX) return;
  const Clock::time_point now = Clock::now();
  const int64_t elapsed = std::chrono::nanoseconds(now - start_).count();
  // The thread that advances the time draws; the others go on with their work.
  if (elapsed >= due && next_draw_ns_.compare_exchange_strong(due, elapsed + kRedraw.count()))
    Draw(now);
}

void Progress::Draw(Clock::time_point now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!sink_) return;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  sink_(std::string(kEraseLine) + ProgressLine(label_, done(), total_, seconds, PeakRssBytes()));
  drawn_ = true;
}

void Progress::Finish() {
  next_draw_ns_ = INT64_MAX;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (sink_ && drawn_) sink_(kEraseLine);
  sink_ = nullptr;
}

std::string ProgressLine(std::string_view label, uint64_t done, uint64_t total, double seconds,
                         uint64_t peak_rss_bytes) {
  const std::string rate = HumanRate(done, seconds);
  const std::string rss = HumanBytes(peak_rss_bytes);
  if (total == 0) return fmt::format("{}  {}  {}  peak RSS {}", label, HumanBytes(done), rate, rss);
  // Rounded down: 100% only when all is done.
  const auto percent = static_cast<unsigned>(
      std::min<unsigned __int128>(static_cast<unsigned __int128>(done) * 100 / total, 100));
  return fmt::format("{}  {}%  {} of {}  {}  ETA {}  peak RSS {}", label, percent, HumanBytes(done),
                     HumanBytes(total), rate, TimeLeft(done, total, seconds), rss);
}

uint64_t StatusBytes(std::string_view key) {
  const int fd = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  std::string status;  // long for a user in a thousand groups
  char buffer[8192];
  for (ssize_t n = 0; (n = ::read(fd, buffer, sizeof buffer)) > 0;)
    status.append(buffer, static_cast<size_t>(n));
  ::close(fd);
  const size_t at = status.find(key);
  if (at == std::string::npos) return 0;
  return std::strtoull(status.c_str() + at + key.size(), nullptr, 10) * 1024;
}

}  // namespace nxdkit
