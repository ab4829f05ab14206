// Numbers for people.
#pragma once

#include <string>

namespace nxdkit {

// Three to five significant digits: "0.5120", "412.3", "1.2e-05"; whole numbers as they are.
std::string ShortNumber(double value);

}  // namespace nxdkit
