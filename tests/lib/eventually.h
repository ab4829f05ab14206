// PRIVATE to tests. Waits for what other threads and processes bring about: looks again and again,
// within a limit.
#pragma once

#include <chrono>
#include <thread>

namespace nxdkit::testing_util {

// So long a test waits for what has to come, however busy the machine: what comes is not waited for
// any longer.
inline constexpr double kPatience = 60;

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Whether `holds()` comes to be true within `seconds`. It is asked once more at the end, which a
// busy machine may have slept over.
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
