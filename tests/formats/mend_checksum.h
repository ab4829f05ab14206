// PRIVATE to tests. For a hand that changes stored weights as somebody who writes others would.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/hash/crc32.h"
#include "lib/tensor/checked_storage.h"

namespace nxdkit::testing_util {

// Changes one bit of the file.
inline void FlipFile(const std::string& path, uint64_t offset, int bit = 0) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const char byte = static_cast<char>(file.get() ^ (1 << bit));
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(byte);
  if (!file.flush()) ADD_FAILURE() << "cannot change byte " << offset << " of " << path;
}

// The CRC-32 of the storage's bytes as they are in its file now.
inline uint32_t CrcInFile(const Storage& storage) {
  std::vector<char> bytes(storage.bytes());
  std::ifstream file(storage.path(), std::ios::binary);
  file.seekg(static_cast<std::streamoff>(storage.file_offset()));
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return Crc32(0, std::as_bytes(std::span(bytes)));
}

// FlipFile of byte `at` of the storage; a torch archive's checksum of it is made to agree, in the
// directory and wherever else it stands.
inline void FlipStored(const Storage& storage, uint64_t at, int bit = 0) {
  const uint32_t before = CrcInFile(storage);
  FlipFile(storage.path(), storage.file_offset() + at, bit);
  if (!storage.checked()) return;
  const uint32_t after = CrcInFile(storage);
  std::fstream file(storage.path(), std::ios::in | std::ios::out | std::ios::binary);
  std::string all(std::filesystem::file_size(storage.path()), '\0');
  file.read(all.data(), static_cast<std::streamsize>(all.size()));
  const std::string_view old(reinterpret_cast<const char*>(&before), sizeof(before));
  for (size_t place = all.find(old); place != std::string::npos; place = all.find(old, place + 4)) {
    file.seekp(static_cast<std::streamoff>(place));
    file.write(reinterpret_cast<const char*>(&after), sizeof(after));
  }
  if (!file.flush()) ADD_FAILURE() << "cannot mend " << storage.path();
}

}  // namespace nxdkit::testing_util
