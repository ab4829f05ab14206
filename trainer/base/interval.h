// A timer for messages that appear now and then, shared by threads that all ask whether it is time.
#pragma once

#include <atomic>
#include <chrono>

namespace nxdkit::trainer {

class Interval {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Interval(Clock::duration length) : length_(length), last_(Clock::now()) {}

  // True for exactly one of the asking threads each time the interval has passed. Thread-safe.
  bool Passed() {
    const Clock::time_point now = Clock::now();
    Clock::time_point last = last_.load();
    return now - last >= length_ && last_.compare_exchange_strong(last, now);
  }

 private:
  const Clock::duration length_;
  std::atomic<Clock::time_point> last_;
};

}  // namespace nxdkit::trainer
