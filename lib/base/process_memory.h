// Memory of this process, as the kernel counts it.
#pragma once

#include <cstdint>
#include <string_view>

namespace nxdkit {

// A value of /proc/self/status, such as "VmRSS:", in bytes; 0 when it is not there.
uint64_t StatusBytes(std::string_view key);
// The most memory that this process has held at once. Not from getrusage, whose figure begins with
// the size of the process that started this one.
inline uint64_t PeakRssBytes() { return StatusBytes("VmHWM:"); }

}  // namespace nxdkit
