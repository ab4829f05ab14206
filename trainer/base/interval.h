// What is said now and then: by one of the threads that ask whether it is time again.
#pragma once

#include <atomic>
#include <chrono>

namespace nxdkit::trainer {

class Interval {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Interval(Clock::duration length) : length_(length), last_(Clock::now()) {}

  // True for one of the threads that ask when it has passed; then it begins again. Thread-safe.
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
