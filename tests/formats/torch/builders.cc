#include "tests/formats/torch/builders.h"

#include <zlib.h>

#include <cstdlib>

namespace nxdkit::torch {
namespace {

uint32_t CrcOf(std::string_view data) {
  return static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size())));
}

std::string LocalHeader(const TestRecord& record) {
  const std::string name = record.local_name.value_or(record.name);
  return "PK\3\4" + U16(20) + U16(record.flags) + U16(record.local_method.value_or(record.method)) +
         U32(0) + U32(0) + U32(0) + U32(0) + U16(name.size()) + U16(0) + name;
}

std::string DirectoryEntry(const TestRecord& record, uint64_t offset) {
  const uint64_t stored = record.stored_bytes.value_or(record.data.size());
  const uint64_t bytes = record.bytes.value_or(record.data.size());
  return "PK\1\2" + U16(20) + U16(20) + U16(record.flags) + U16(record.method) + U32(0) +
         U32(record.crc.value_or(CrcOf(record.data))) + U32(stored) + U32(bytes) +
         U16(record.name.size()) + U16(record.directory_extra.size()) + U16(0) + U16(0) + U16(0) +
         U32(0) + U32(record.header_offset.value_or(offset)) + record.name + record.directory_extra;
}

}  // namespace

std::string Deflate(std::string_view data) {
  z_stream stream = {};
  if (deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
  std::string out(deflateBound(&stream, static_cast<uLong>(data.size())), '\0');
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string TestZip::Bytes() const {
  std::string file;
  std::string directory;
  for (const TestRecord& record : records) {
    directory += DirectoryEntry(record, file.size());
    file += LocalHeader(record) + record.data;
  }
  const uint64_t offset = directory_offset.value_or(file.size());
  const uint64_t bytes = directory_bytes.value_or(directory.size());
  const uint64_t count = entries.value_or(records.size());
  file += directory + after_directory;
  if (zip64_end) {
    const uint64_t end64 = file.size();
    file += "PK\6\6" + U64(44) + U16(45) + U16(45) + U32(disk) + U32(disk) + U64(count) +
            U64(count) + U64(bytes) + U64(offset);
    file += "PK\6\7" + U32(0) + U64(end64) + U32(1);
    file +=
        "PK\5\6" + U16(0) + U16(0) + U16(0xffff) + U16(0xffff) + U32(0xffffffff) + U32(0xffffffff);
  } else {
    file += "PK\5\6" + U16(disk) + U16(disk) + U16(count) + U16(count) + U32(bytes) + U32(offset);
  }
  return file + U16(comment.size()) + comment;
}

std::vector<TestRecord> RecordsOf(std::string_view pickle,
                                  const std::vector<std::string>& storages) {
  std::vector<TestRecord> records;
  records.push_back({"x/data.pkl", std::string(pickle)});
  for (size_t i = 0; i < storages.size(); ++i)
    records.push_back({"x/data/" + std::to_string(i), storages[i]});
  records.push_back({"x/version", "3\n"});
  return records;
}

std::string ArchiveOf(std::string_view pickle, const std::vector<std::string>& storages) {
  TestZip zip;
  zip.records = RecordsOf(pickle, storages);
  return zip.Bytes();
}

std::string Long(int64_t value) { return "\x8a\x08" + U64(static_cast<uint64_t>(value)); }

std::string IntTuple(const std::vector<int64_t>& values) {
  std::string items;
  for (const int64_t value : values) items += Long(value);
  return Tuple(items);
}

std::string StorageId(std::string_view storage_class, std::string_view key, int64_t elements) {
  return Tuple(Str("storage") + Global("torch", storage_class) + Str(key) + Str("cpu") +
               Long(elements)) +
         "Q";
}

std::string TestTensor::Pickled() const {
  return Global("torch._utils", "_rebuild_tensor_v2") +
         Tuple(StorageId(storage_class, key, elements) + Long(offset) + IntTuple(shape) +
               IntTuple(strides) + "\x89" + Global("collections", "OrderedDict") + ")R") +
         "R";
}

}  // namespace nxdkit::torch
