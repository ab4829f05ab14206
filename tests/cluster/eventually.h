// PRIVATE to tests. Waits for what other processes bring about: looks again and again, within a
// limit.
#pragma once

#include <chrono>
#include <thread>

namespace nxdkit::test {

// Whether `holds()` comes to be true within `seconds`.
template <typename Condition>
bool Eventually(double seconds, const Condition& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace nxdkit::test
