// PRIVATE to tests. Changes stored weights as a program that writes others would: with valid
// checksums.
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

// The CRC-32 of the storage's current bytes.
inline uint32_t CrcInFile(const Storage& storage) {
  std::vector<char> bytes(storage.bytes());
  std::ifstream file(storage.path(), std::ios::binary);
  file.seekg(static_cast<std::streamoff>(storage.file_offset()));
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return Crc32(0, std::as_bytes(std::span(bytes)));
}

// The places of a record's CRC-32 in its zip archive: in the local header before it, the descriptor
// after it, and its entry of the directory.
inline std::vector<size_t> PlacesOfCrc(const std::string& all, const CheckedStorage& record) {
  const size_t data = record.file_offset();
  const size_t end = data + record.bytes();
  std::vector<size_t> places = {all.rfind("PK\3\4", data) + 14};
  if (all.compare(end, 4, "PK\7\10") == 0) places.push_back(end + 4);
  for (size_t at = all.find("PK\1\2", end); at != all.npos; at = all.find("PK\1\2", at + 4))
    if (all.compare(at + 46, record.member().size(), record.member()) == 0) {
      places.push_back(at + 16);
      break;
    }
  return places;
}

// Updates the checksum of the record in a torch archive to its current bytes.
inline void MendChecksum(const Storage& storage) {
  if (!storage.checked()) return;
  const uint32_t crc = CrcInFile(storage);
  const std::string_view now(reinterpret_cast<const char*>(&crc), sizeof(crc));
  std::fstream file(storage.path(), std::ios::in | std::ios::out | std::ios::binary);
  std::string all(std::filesystem::file_size(storage.path()), '\0');
  file.read(all.data(), static_cast<std::streamsize>(all.size()));
  for (const size_t place : PlacesOfCrc(all, *storage.checked())) {
    if (all.compare(place, 4, std::string(4, '\0')) == 0) continue;  // it is in the descriptor
    file.seekp(static_cast<std::streamoff>(place));
    file.write(now.data(), static_cast<std::streamsize>(now.size()));
  }
  if (!file.flush()) ADD_FAILURE() << "cannot mend " << storage.path();
}

// FlipFile at byte `at` of the storage, as if it had been written so.
inline void FlipStored(const Storage& storage, uint64_t at, int bit = 0) {
  FlipFile(storage.path(), storage.file_offset() + at, bit);
  MendChecksum(storage);
}

}  // namespace nxdkit::testing_util
