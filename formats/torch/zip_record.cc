#include "formats/torch/zip_record.h"

#include <zlib.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "formats/torch/zip_format.h"
#include "lib/base/errors.h"
#include "lib/hash/crc32.h"
#include "lib/system/page_buffer.h"
#include "lib/tensor/checked_storage.h"

namespace nxdkit::torch {
namespace {

constexpr size_t kChunkBytes = 256 << 10;

Status StreamStored(FileView file, const ZipRecord& record, const ByteSink& sink) {
  const PageBuffer buffer(std::min<uint64_t>(kChunkBytes, record.bytes) + kPageBytes);
  for (uint64_t done = 0; done < record.bytes;) {
    const std::span<std::byte> piece = buffer.InStep(
        file.start() + record.data_offset, std::min<uint64_t>(kChunkBytes, record.bytes - done));
    NXDKIT_TRY(file.ReadAt(record.data_offset + done, piece));
    NXDKIT_TRY(sink(piece));
    done += piece.size();
  }
  return OkStatus();
}

Status StreamDeflated(FileView file, const ZipRecord& record, const ByteSink& sink) {
  z_stream stream = {};
  // Negative window bits: zip holds raw deflate data, without zlib's header.
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    return Error(Errc::kInternal, "zlib: inflateInit2 failed");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> owner(&stream, inflateEnd);
  std::vector<std::byte> in(std::min<uint64_t>(kChunkBytes, record.stored_bytes));
  std::vector<std::byte> out(kChunkBytes);
  uint64_t read = 0;
  uint64_t written = 0;
  for (int code = Z_OK; code != Z_STREAM_END;) {
    if (stream.avail_in == 0 && read < record.stored_bytes) {
      const auto piece = std::span(in).first(
          static_cast<size_t>(std::min<uint64_t>(in.size(), record.stored_bytes - read)));
      NXDKIT_TRY(file.ReadAt(record.data_offset + read, piece));
      read += piece.size();
      stream.next_in = reinterpret_cast<Bytef*>(in.data());
      stream.avail_in = static_cast<uInt>(piece.size());
    }
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    code = inflate(&stream, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END)
      return InRecord(record,
                      Corrupt("inflating stops after {} of {} bytes: {}", written, record.bytes,
                              stream.msg ? stream.msg : "the data ends too early"));
    const auto piece = std::span<const std::byte>(out).first(out.size() - stream.avail_out);
    if (piece.size() > record.bytes - written)
      return InRecord(
          record, Corrupt("the record inflates to more than the {} bytes it claims", record.bytes));
    NXDKIT_TRY(sink(piece));
    written += piece.size();
  }
  if (written != record.bytes)
    return InRecord(record,
                    Corrupt("the record inflates to {} bytes, expected {}", written, record.bytes));
  const uint64_t unused = stream.avail_in + (record.stored_bytes - read);
  if (unused == 0) return OkStatus();
  return InRecord(record, Corrupt("{} bytes are left over after the deflated data", unused));
}

// A deflated record. Only a temporary file gives random access to it.
class InflatedStorage : public Storage {
 public:
  InflatedStorage(const ArchivePlace& place, const ZipRecord& record)
      : place_(place), name_(record.name), record_(record) {
    record_.name = name_;
  }

  uint64_t bytes() const override { return record_.bytes; }
  const std::string& path() const override { return place_.file->path(); }
  uint64_t file_offset() const override { return place_.start + record_.data_offset; }

  Status ReadAt(uint64_t offset, std::span<std::byte> to) const override {
    std::call_once(once_, [this] { inflated_ = Inflate(); });
    if (!inflated_->ok()) return inflated_->error();
    if (offset > record_.bytes || to.size() > record_.bytes - offset)
      return InRecord(record_, Corrupt("{} bytes at offset {} of a record of {} bytes", to.size(),
                                       offset, record_.bytes))
          .in(path());
    return (*inflated_)->ReadAt(offset, to);
  }

 private:
  Result<File> Inflate() const {
    NXDKIT_ASSIGN(File temporary, File::OpenTemporary());
    uint64_t written = 0;
    const ByteSink write = [&](std::span<const std::byte> piece) -> Status {
      NXDKIT_TRY(temporary.WriteAt(written, piece));
      written += piece.size();
      return OkStatus();
    };
    NXDKIT_TRY(StreamRecord(place_.view(), record_, write).in(path()));
    return temporary;
  }

  ArchivePlace place_;
  std::string name_;  // record_.name points here
  ZipRecord record_;
  mutable std::once_flag once_;
  mutable std::optional<Result<File>> inflated_;
};

}  // namespace

Error InRecord(const ZipRecord& record, Error error) {
  return std::move(error).member(record.name).at(record.data_offset);
}

Status StreamRecord(FileView file, const ZipRecord& record, const ByteSink& sink) {
  uint32_t crc = 0;
  const ByteSink checked = [&](std::span<const std::byte> piece) {
    if (record.crc != 0) crc = Crc32(crc, piece);
    return sink(piece);
  };
  NXDKIT_TRY(record.method == zip::kStored ? StreamStored(file, record, checked)
                                           : StreamDeflated(file, record, checked));
  if (record.crc == 0) return OkStatus();
  return CompareCrc32(crc, record.crc).member(record.name).at(record.data_offset);
}

Result<std::string> ReadRecord(FileView file, const ZipRecord& record, uint64_t max_bytes) {
  if (record.bytes > max_bytes)
    return InRecord(
        record, Unsupported("the record has {} bytes, the limit is {}", record.bytes, max_bytes));
  std::string contents;
  contents.reserve(static_cast<size_t>(record.bytes));
  NXDKIT_TRY(StreamRecord(file, record, [&](std::span<const std::byte> piece) {
    contents.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return OkStatus();
  }));
  return contents;
}

std::shared_ptr<const Storage> RecordStorage(const ArchivePlace& place, const ZipRecord& record) {
  if (record.method != zip::kStored) return std::make_shared<InflatedStorage>(place, record);
  auto bytes = FileStorage(place.file, place.start + record.data_offset, record.bytes);
  if (record.crc == 0) return bytes;
  return std::make_shared<CheckedStorage>(std::move(bytes), record.crc, std::string(record.name));
}

}  // namespace nxdkit::torch
