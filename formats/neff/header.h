// The header of a NEFF, the compiled form of one graph: 1024 bytes before a tar archive. Read only;
// nothing of a NEFF is ever executed. Facts: FORMAT.md beside this file.
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
  uint64_t data_bytes = 0;  // after the header
  uint64_t major = 0;       // of the NEFF version
  uint64_t minor = 0;
  std::string build;  // the compiler's own words, up to the first NUL; any bytes
  std::array<std::byte, 32> hash = {};
  std::array<std::byte, 16> uuid = {};
  std::string name;
  uint32_t cores = 0;  // requested
  uint64_t features = 0;
  uint32_t lnc = 0;  // logical cores of one physical one
};

std::string UuidText(const Header& header);  // "561826fb-125f-4bb8-991c-29e085c8949a"
std::string HashText(const Header& header);  // "md5:..." or "sha256:..."

// `bytes` are those from the start of the header on, at least all of it; `available` is how many
// there are, header included. kCorrupt with the offset of the field from the start of the header.
Result<Header> ParseHeader(std::span<const std::byte> bytes, uint64_t available);

// A NEFF inside a file.
struct Located {
  uint64_t offset = 0;  // of the header, from the start of the file
  Header header;
  Payload payload = Payload::kUnknown;

  uint64_t data_offset() const { return offset + kHeaderBytes; }
};

// The NEFF that begins at `offset` and lies in [offset, end).
Result<Located> ReadAt(const File& file, uint64_t offset, uint64_t end);

// All of them in [offset, end), found by their headers; what does not begin like an archive behind
// a plausible header is passed over. kLimit after `most`. `poll` is asked between blocks. What is
// wrong with headers that begin as they should, and have an archive behind them, goes to `damaged`
// (at most `most`), if that is not null.
Result<std::vector<Located>> Find(const File& file, uint64_t offset, uint64_t end,
                                  size_t most = 10'000, const std::function<Status()>& poll = {},
                                  std::vector<Error>* damaged = nullptr);

// Whether the payload has the header's hash; reads all of it. `poll` is asked between blocks.
Result<bool> HashMatches(const File& file, const Located& neff,
                         const std::function<Status()>& poll = {});

}  // namespace nxdkit::neff
