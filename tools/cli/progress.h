// PRIVATE to tools/: the progress of a long phase, for people. On a terminal it is one line that is
// redrawn in place; in a log (Slurm, CI) a line now and then.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace nxdkit::tool {

// How far a phase has come.
struct ProgressState {
  std::string_view phase;  // "writing"
  uint64_t done = 0;       // bytes
  uint64_t total = 0;      // bytes; 0: unknown
  double seconds = 0;      // since the phase began
  double rate = 0;         // bytes per second, lately
  uint64_t peak_rss = 0;   // bytes
};

// "writing  [######------]  45%  6.88 of 15.3 GB  1.25 GB/s  0:07 left  512 MB of memory", in at
// most `columns` - 1 columns: what matters least is left out first, and the bar takes what is left.
std::string ProgressLine(const ProgressState& state, int columns);

// "writing: 45%, 6.88 GB of 15.3 GB, 1.25 GB/s, 0:07 left" for a log.
std::string ProgressLogLine(const ProgressState& state);

// Whether a log should have a line now: at each tenth of the bytes, or after 30 s without a line,
// but never within 5 s after the last one or after the beginning.
class LogPace {
 public:
  bool IsDue(uint64_t done, uint64_t total, double seconds);

 private:
  double last_seconds_ = 0;
  uint64_t last_tenth_ = 0;
};

// The bytes per second of the last five seconds.
class RecentRate {
 public:
  double Add(double seconds, uint64_t done);

 private:
  struct Sample {
    double seconds;
    uint64_t done;
  };
  std::deque<Sample> samples_;
};

// Draws a phase from a thread of its own, so that a stalled phase shows. A phase that ends within a
// tenth of a second (on a terminal) or 5 s (in a log) is not drawn.
class Progress {
 public:
  struct Screen {
    std::function<void(std::string_view)> write;
    std::function<int()> columns;  // as they are now; without it the screen is a log
    std::string name;              // of the command: lines of a log begin with it
  };

  // Without `screen.write` it only counts.
  Progress(std::string phase, uint64_t total_bytes, Screen screen);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // erases the line

  void Add(uint64_t bytes) { done_.fetch_add(bytes, std::memory_order_relaxed); }
  uint64_t done() const { return done_.load(std::memory_order_relaxed); }
  // Writes a line above the progress line, which is drawn again below it.
  void WriteAbove(std::string_view line);

 private:
  using Clock = std::chrono::steady_clock;
  void Run();
  void Draw();

  const std::string phase_;
  const uint64_t total_;
  const Screen screen_;
  const Clock::time_point start_ = Clock::now();
  std::atomic<uint64_t> done_{0};
  std::mutex mutex_;  // guards what follows
  std::condition_variable ended_;
  bool is_ended_ = false;
  bool is_drawn_ = false;
  RecentRate rate_;
  LogPace pace_;
  std::thread thread_;
};

}  // namespace nxdkit::tool
