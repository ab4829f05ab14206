// PRIVATE: all processes that come from one program that we started, in whatever process group or
// session they have put themselves. They are known by a mark in their environment, which every
// child inherits, and, while its parents live, by their descent. Who empties its environment and
// loses its parents is not found.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace nxdkit {

// An entry for the environment of one program: "NXDKIT_FAMILY_<16 digits>=1". The name is its own,
// so that programs within programs keep all marks.
std::string NewFamilyMark();

// Those that run now and may be asked about: `first` and what descends from it, and what carries
// the mark. No zombies, and never this process. Empty where there is no /proc.
std::vector<pid_t> RunningFamily(pid_t first, std::string_view mark);

}  // namespace nxdkit
