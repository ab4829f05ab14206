// Facts that the kernel tells of a running process: for files that name the process which works
// on something.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nxdkit {

struct ProcessFacts {
  std::string name;                // at most 15 bytes of it: that is what the kernel keeps
  std::vector<std::string> words;  // its command line; none for a zombie or a kernel thread
};

// nullopt: no process of this number can be seen from here.
std::optional<ProcessFacts> FactsOfProcess(int64_t pid);

std::string HostName();  // "-" when the machine has none

}  // namespace nxdkit
