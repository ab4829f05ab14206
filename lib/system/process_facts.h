// The kernel's facts about a running process: for files that name the process which works on
// something.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nxdkit {

struct ProcessFacts {
  std::string name;                // at most 15 bytes, as the kernel keeps it
  std::vector<std::string> words;  // its command line; none for a zombie or a kernel thread
};

// nullopt if no process of this number is visible.
std::optional<ProcessFacts> FactsOfProcess(int64_t pid);

std::string HostName();  // "-" if the machine has none

}  // namespace nxdkit
