// PRIVATE to tests. A minimal model.pt, a TorchScript archive with a NEFF in it, put together by
// hand; no compiler made it.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/little_endian.h"
#include "lib/hash/crc32.h"
#include "tests/formats/neff/neff_bytes.h"

namespace nxdkit::testing_util {

// A zip of stored records, each aligned to 64 bytes as torch aligns them.
inline std::string ZipOf(const std::vector<std::pair<std::string, std::string>>& records) {
  const auto u16 = [](uint64_t value, std::string& to) {
    AppendLittle(static_cast<uint16_t>(value), to);
  };
  const auto u32 = [](uint64_t value, std::string& to) {
    AppendLittle(static_cast<uint32_t>(value), to);
  };
  std::string file;
  std::string directory;
  for (const auto& [name, contents] : records) {
    const size_t header_offset = file.size();
    const size_t padding = 63 - (header_offset + 30 + name.size() + 4 + 63) % 64;
    std::string facts;  // version, flags, method, time, CRC, both sizes, size of the name
    u16(10, facts), u16(0x0800, facts), u16(0, facts), u32(0, facts);
    u32(Crc32(0, std::as_bytes(std::span(contents))), facts);
    u32(contents.size(), facts), u32(contents.size(), facts), u16(name.size(), facts);
    file += "PK\3\4" + facts;
    u16(4 + padding, file);
    file += name + "FB";
    u16(padding, file);
    file += std::string(padding, 'Z') + contents;
    directory += "PK\1\2";
    u16(10, directory);
    directory += facts + std::string(12, '\0');  // no extra field, comment, disk, attributes
    u32(header_offset, directory);
    directory += name;
  }
  std::string end("PK\5\6\0\0\0\0", 8);
  u16(records.size(), end), u16(records.size(), end);
  u32(directory.size(), end), u32(file.size(), end), u16(0, end);
  return file + directory + end;
}

// `data` is the content of data.pkl; two different ones are two blobs.
inline std::string CompiledBlob(const std::string& data = ToyNeff()) {
  return ZipOf({{"model/data.pkl", "\x80\x02X" + data + "."},
                {"model/constants.pkl", "\x80\x02)."},
                {"model/version", "3\n"}});
}

}  // namespace nxdkit::testing_util
