// PRIVATE to tests. Waits for a result of other threads and processes: checks repeatedly, within a
// limit.
#pragma once

#include <chrono>
#include <thread>

namespace nxdkit::testing_util {

// The time that a test waits for something that must happen, however busy the machine; it waits no
// longer than needed.
inline constexpr double kPatience = 60;

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Whether `holds()` becomes true within `seconds`. It is checked once more at the end, which a busy
// machine may have slept past.
template <typename Condition>
bool Eventually(double seconds, const Condition& holds) {
  const Stopwatch since;
  while (!holds()) {
    if (since.seconds() > seconds) return holds();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

template <typename Condition>
bool Eventually(const Condition& holds) {
  return Eventually(kPatience, holds);
}

}  // namespace nxdkit::testing_util
