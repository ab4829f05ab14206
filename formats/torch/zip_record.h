// PRIVATE: the bytes of one zip record, as random-access storage or whole.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "formats/torch/zip_reader.h"
#include "lib/system/file.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::torch {

Error InRecord(const ZipRecord& record, Error error);  // At the record's data.

using ByteSink = std::function<Status(std::span<const std::byte>)>;

// Hands the record's (inflated) bytes to `sink` in order, in pieces of bounded size: exactly
// record.bytes of them, or an error. Compares the CRC-32 unless it is 0 (not computed).
Status StreamRecord(FileView file, const ZipRecord& record, const ByteSink& sink);

// The whole record; kUnsupported when it is over `max_bytes`.
Result<std::string> ReadRecord(FileView file, const ZipRecord& record, uint64_t max_bytes);

// The location of an archive: a file, or a part of one.
struct ArchivePlace {
  std::shared_ptr<const File> file;  // shared by all storages of the archive
  uint64_t start = 0;
  uint64_t bytes = 0;
  FileView view() const { return FileView(*file, start, bytes); }
};

// Random access. A stored record is a piece of the file, verified as it is read if it has a CRC-32
// (CheckedStorage); a deflated one is inflated into a temporary file at the first ReadAt, whose
// error every later ReadAt repeats. Thread-safe.
std::shared_ptr<const Storage> RecordStorage(const ArchivePlace& place, const ZipRecord& record);

}  // namespace nxdkit::torch
