// A stopwatch, in seconds.
#pragma once

#include <chrono>

namespace nxdkit {

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }
  // The time since the last lap or the start; begins the next lap.
  double Lap() {
    const double seconds = Seconds();
    began_ = std::chrono::steady_clock::now();
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace nxdkit
