// Small questions to the system.
#pragma once

#include <cstdint>
#include <string>

namespace nxdkit {

// Memory this process holds now (VmRSS); 0 when the system does not say.
uint64_t RssBytes();

// Times of the last change of a file's bytes and of the file itself, and its number on the disk:
// a file that was exchanged or written to has another stamp. "-" when there is no such file.
std::string FileStamp(const std::string& path);

// Whether both paths exist and are the same file or folder.
bool SamePath(const std::string& a, const std::string& b);

}  // namespace nxdkit
