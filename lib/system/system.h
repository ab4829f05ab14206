// Small system queries.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit {

// The memory that this process holds now; 0 if the system does not say.
uint64_t RssBytes();

// Returns freed memory to the system, as far as the allocator can.
void ReturnFreeMemory();

// The most memory that this process may hold: the machine's, or less if a control group (v1 or v2,
// any that it is in) says so. `root` stands for "/", for tests. nullopt if the system does not say.
std::optional<uint64_t> MemoryLimitBytes(const std::string& root = "");

// The memory that this process may take now without displacing others: the machine's free and
// reclaimable memory, and no more than MemoryLimitBytes. nullopt if the system does not say.
std::optional<uint64_t> FreeMemoryBytes(const std::string& root = "");

// The numbers of the processors that this thread may run on; empty if the system does not say.
std::vector<int> AllowedProcessors();

// The times of the last change of a file's bytes and of its inode, and the inode's number: a file
// that was replaced or written to has another stamp. "-" if there is no such file.
Result<std::string> FileStamp(const std::string& path);

Result<bool> SamePath(const std::string& a, const std::string& b);  // both exist, and are the same

}  // namespace nxdkit
