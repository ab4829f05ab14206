// Small questions to the system.
#pragma once

#include <cstdint>
#include <string>

namespace nxdkit {

// Memory this process holds now (VmRSS); 0 when the system does not say.
uint64_t RssBytes();

// Time of the last change of a file, nanoseconds since 1970; 0 when there is no such file.
int64_t ModifiedNanoseconds(const std::string& path);

// Whether both paths exist and are the same file or folder.
bool SamePath(const std::string& a, const std::string& b);

}  // namespace nxdkit
