// PRIVATE: all processes that come from one program that we started, whatever process group or
// session they moved to. They are recognised by a mark in their environment, which every child
// inherits, and by descent while their parents live. A process that clears its environment and
// loses its parents is not found.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace nxdkit {

// An entry for the environment of one program: "NXDKIT_FAMILY_<16 digits>=1". Each has its own
// name, so that programs within programs keep all marks.
std::string NewFamilyMark();

// The running processes that may be inspected: `first` and its descendants, and all that carry the
// mark. No zombies, and never this process. Empty without /proc.
std::vector<pid_t> RunningFamily(pid_t first, std::string_view mark);

}  // namespace nxdkit
