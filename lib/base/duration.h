// Durations, for people.
#pragma once

#include <string>

namespace nxdkit {

// The two largest units, rounded: "0.06 s", "1.5 s", "12 s", "41 min 10 s", "5 h 20 min",
// "12 d 3 h"; "-" if negative, not finite or over 100 years.
std::string HumanDuration(double seconds);

}  // namespace nxdkit
