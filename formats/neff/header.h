// The header of a NEFF, the compiled form of one graph: 1024 bytes before a tar archive. Read only;
// nothing in a NEFF is ever executed. Facts: FORMAT.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lib/system/file.h"

namespace nxdkit::neff {

inline constexpr uint64_t kHeaderBytes = 1024;

enum class Payload : uint8_t { kGzip, kTar, kUnknown };
std::string_view PayloadName(Payload payload);  // "gzip", "tar", "unknown"

struct Header {
  uint64_t package = 0;     // 1: hash is SHA-256; 2: MD5
  uint64_t data_bytes = 0;  // following the header
  uint64_t major = 0;       // of the NEFF version
  uint64_t minor = 0;
  std::string build;  // the compiler's text, up to the first NUL; any bytes
  std::array<std::byte, 32> hash = {};
  std::array<std::byte, 16> uuid = {};
  std::string name;
  uint32_t cores = 0;  // requested
  uint64_t features = 0;
  uint32_t lnc = 0;  // logical cores per physical one
};

std::string UuidText(const Header& header);  // "561826fb-125f-4bb8-991c-29e085c8949a"
std::string HashText(const Header& header);  // "md5:..." or "sha256:..."

// `bytes` start at the header and include all of it; `available` is the number of bytes there are,
// header included. kCorrupt with the offset of the field from the start of the header.
Result<Header> ParseHeader(std::span<const std::byte> bytes, uint64_t available);

// A NEFF inside a file.
struct Located {
  uint64_t offset = 0;  // of the header, from the start of the file
  Header header;
  Payload payload = Payload::kUnknown;

  uint64_t data_offset() const { return offset + kHeaderBytes; }
};

// The NEFF that begins at `offset` and is inside [offset, end).
Result<Located> ReadAt(const File& file, uint64_t offset, uint64_t end);

// All NEFFs in [offset, end), found by their headers; a plausible header is skipped if no archive
// follows. kLimit after `most`. `poll` is called between blocks. If `damaged` is not null, it
// receives (at most `most`) faults of headers that begin correctly and have an archive after them.
Result<std::vector<Located>> Find(const File& file, uint64_t offset, uint64_t end,
                                  size_t most = 10'000, const std::function<Status()>& poll = {},
                                  std::vector<Error>* damaged = nullptr);

// Whether the payload has the header's hash; reads all of it. `poll` is called between blocks.
Result<bool> HashMatches(const File& file, const Located& neff,
                         const std::function<Status()>& poll = {});

}  // namespace nxdkit::neff
