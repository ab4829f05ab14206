// Progress of a long run on a terminal: one line, redrawn in place.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace nxdkit {

// Counts bytes; add from any thread. With a sink (the tool's stderr, when that is a terminal) it
// draws at most ten times a second, and erases the line when destroyed; without one it only counts.
class Progress {
 public:
  using Sink = std::function<void(std::string_view)>;  // called by one thread at a time

  // `label` starts the line. `total_bytes` 0: unknown, no percentage.
  Progress(std::string label, uint64_t total_bytes, Sink sink);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // Finish()

  void Add(uint64_t bytes);
  uint64_t done() const { return done_.load(std::memory_order_relaxed); }
  void Finish();  // erases the line; nothing is drawn afterwards

 private:
  using Clock = std::chrono::steady_clock;
  void Draw(Clock::time_point now);

  const std::string label_;
  const uint64_t total_;
  const Clock::time_point start_;
  std::atomic<uint64_t> done_{0};
  std::atomic<int64_t> next_draw_ns_{0};  // since start_
  std::mutex mutex_;                      // guards the members below
  Sink sink_;
  bool drawn_ = false;
};

// "convert  45%  6.89 GB of 15.3 GB  1.25 GB/s  ETA 0:06  peak RSS 512 MB"
std::string ProgressLine(std::string_view label, uint64_t done, uint64_t total, double seconds,
                         uint64_t peak_rss_bytes);

// The value of `key` in /proc/self/status, such as "VmRSS:", in bytes; 0 if it is not there.
uint64_t StatusBytes(std::string_view key);
// The peak memory of this process. Not from getrusage, whose figure starts with the size of the
// process that started this one.
inline uint64_t PeakRssBytes() { return StatusBytes("VmHWM:"); }

}  // namespace nxdkit
