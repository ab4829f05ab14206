// Durations, for people.
#pragma once

#include <string>

namespace nxdkit {

// The two largest units, rounded: "0.06 s", "1.5 s", "12 s", "41 min 10 s", "5 h 20 min",
// "12 d 3 h"; "-" if negative, not finite or over 100 years.
std::string HumanDuration(double seconds);

// As a clock shows it, rounded to seconds: "0:07", "1:02:03"; "-" if negative, not finite or over
// 1e9 s.
std::string ClockText(double seconds);

}  // namespace nxdkit
