// Zip files and pickles put together by hand, right or wrong in one chosen place.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace nxdkit::torch {

template <std::unsigned_integral T>
std::string Little(std::type_identity_t<T> value) {
  std::string out;
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}
inline std::string U16(uint64_t value) { return Little<uint16_t>(static_cast<uint16_t>(value)); }
inline std::string U32(uint64_t value) { return Little<uint32_t>(static_cast<uint32_t>(value)); }
inline std::string U64(uint64_t value) { return Little<uint64_t>(value); }

// ---- zip ----

std::string Deflate(std::string_view data);  // raw, without zlib's header

// A record, with the directory's claims about it where they are wrong.
struct TestRecord {
  TestRecord(std::string record_name, std::string record_data)
      : name(std::move(record_name)), data(std::move(record_data)) {}

  std::string name;
  std::string data;  // as stored
  uint16_t method = 0;
  std::optional<uint64_t> bytes;  // inflated; else the size of `data`
  std::optional<uint64_t> stored_bytes;
  std::optional<uint32_t> crc;  // else that of `data` (of stored records)
  uint16_t flags = 0;
  std::optional<std::string> local_name;
  std::optional<uint64_t> header_offset;
  std::string directory_extra;
  std::optional<uint16_t> local_method;
};

struct TestZip {
  std::vector<TestRecord> records;
  std::string comment;
  bool zip64_end = false;
  std::optional<uint64_t> entries;
  std::optional<uint64_t> directory_offset;
  std::optional<uint64_t> directory_bytes;
  std::string after_directory;  // between the directory and its end record
  uint16_t disk = 0;

  std::string Bytes() const;
};

// The records of an archive: data.pkl, data/<i> and version in the folder "x".
std::vector<TestRecord> RecordsOf(std::string_view pickle,
                                  const std::vector<std::string>& storages = {});
std::string ArchiveOf(std::string_view pickle, const std::vector<std::string>& storages = {});

// ---- pickle ----

inline std::string Global(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}
inline std::string Str(std::string_view text) { return "X" + U32(text.size()) + std::string(text); }
inline std::string Int(int32_t value) { return "J" + U32(static_cast<uint32_t>(value)); }
std::string Long(int64_t value);  // LONG1 of 8 bytes
std::string IntTuple(const std::vector<int64_t>& values);
inline std::string Tuple(std::string_view items) { return "(" + std::string(items) + "t"; }
// Protocol 2, with STOP.
inline std::string Pickle(std::string_view body) { return "\x80\x02" + std::string(body) + "."; }

// ("storage", torch.<storage_class>, key, "cpu", elements) BINPERSID
std::string StorageId(std::string_view storage_class, std::string_view key, int64_t elements);
// _rebuild_tensor_v2 with such a storage.
struct TestTensor {
  std::string storage_class = "FloatStorage";
  std::string key = "0";
  int64_t elements = 6;
  int64_t offset = 0;
  std::vector<int64_t> shape = {2, 3};
  std::vector<int64_t> strides = {3, 1};
  std::string Pickled() const;
};

}  // namespace nxdkit::torch
