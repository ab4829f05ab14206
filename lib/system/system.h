// Small questions to the system.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit {

// Memory this process holds now; 0 when the system does not say.
uint64_t RssBytes();

// Gives the system back what was freed, as far as the allocator can.
void ReturnFreeMemory();

// What this process may hold at most: the machine's memory, or less where a control group (v1 or
// v2, any of those it lies in) says so. `root` stands for "/", for tests. nullopt when the system
// does not say.
std::optional<uint64_t> MemoryLimitBytes(const std::string& root = "");

// Memory that this process may take now without others being pushed out: the machine's free and
// reclaimable memory, and no more than MemoryLimitBytes. nullopt when the system does not say.
std::optional<uint64_t> FreeMemoryBytes(const std::string& root = "");

// The numbers of the processors that this thread may run on; empty when the system does not say.
std::vector<int> AllowedProcessors();

// Times of the last change of a file's bytes and of the file itself, and its number on the disk:
// a file that was exchanged or written to has another stamp. "-" when there is no such file.
Result<std::string> FileStamp(const std::string& path);

Result<bool> SamePath(const std::string& a, const std::string& b);  // both exist, and are one

}  // namespace nxdkit
