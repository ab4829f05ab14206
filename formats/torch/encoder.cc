#include "formats/torch/encoder.h"

#include <fmt/core.h>

#include <concepts>
#include <unordered_set>

#include "formats/torch/pickle_writer.h"
#include "formats/torch/zip_format.h"
#include "lib/base/checked.h"
#include "lib/base/errors.h"
#include "lib/base/little_endian.h"
#include "lib/hash/crc32.h"

namespace nxdkit::torch {
namespace {

constexpr uint64_t kZip64LocalBytes = 4 + 16;  // id, length, two sizes
constexpr uint64_t kPaddingHeaderBytes = 4;    // id, length
constexpr uint16_t kPlainVersion = 10;  // version needed to extract, by the zip specification
constexpr uint16_t kZip64Version = 45;

// A record of the archive, stored (not deflated). Its place in the file is decided before any of
// its data is known.
struct Record {
  std::string name;
  std::string contents;         // for a record that does not hold a tensor
  std::vector<uint64_t> parts;  // tensor bytes that the caller writes; empty: `contents`
  uint64_t bytes = 0;           // of the data
  uint64_t header_offset = 0;   // both set by ZipEncoder
  uint64_t data_offset = 0;     // a multiple of zip::kDataAlignment
};

// Whether a size or an offset does not fit into its 32-bit field.
bool Needs64(uint64_t value) { return value >= zip::kIn64; }

uint64_t LocalHeaderBytes(const Record& record) {
  return zip::kLocalBytes + record.name.size() + (Needs64(record.bytes) ? kZip64LocalBytes : 0) +
         kPaddingHeaderBytes;
}

uint64_t DirectoryExtraBytes(const Record& record) {
  const uint64_t numbers =
      (Needs64(record.bytes) ? 2u : 0u) + (Needs64(record.header_offset) ? 1u : 0u);
  return numbers == 0 ? 0 : 4 + 8 * numbers;
}

class Bytes {
 public:
  Bytes& U16(uint64_t value) { return Number(static_cast<uint16_t>(value)); }
  Bytes& U32(uint64_t value) { return Number(static_cast<uint32_t>(value)); }
  Bytes& U64(uint64_t value) { return Number(value); }
  // A number of 32 bits, or the marker that it is in the zip64 field.
  Bytes& U32Or64(uint64_t value) { return U32(Needs64(value) ? zip::kIn64 : value); }
  Bytes& Text(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  Bytes& Fill(size_t count, char c) {
    bytes_.append(count, c);
    return *this;
  }
  std::string Take() { return std::exchange(bytes_, {}); }

 private:
  template <std::unsigned_integral T>
  Bytes& Number(T value) {
    AppendLittle(value, bytes_);
    return *this;
  }
  std::string bytes_;
};

void PutLocalHeader(Bytes& out, const Record& record, uint32_t crc) {
  const bool wide = Needs64(record.bytes);
  const uint64_t padding = record.data_offset - record.header_offset - LocalHeaderBytes(record);
  out.U32(zip::kLocalSignature).U16(wide ? kZip64Version : kPlainVersion);
  out.U16(zip::kUtf8Flag).U16(zip::kStored).U32(0);  // time and date 0: same input, same bytes
  out.U32(crc).U32Or64(record.bytes).U32Or64(record.bytes).U16(record.name.size());
  out.U16((wide ? kZip64LocalBytes : 0) + kPaddingHeaderBytes + padding).Text(record.name);
  if (wide) out.U16(zip::kZip64Extra).U16(16).U64(record.bytes).U64(record.bytes);
  out.U16(zip::kPaddingExtra).U16(padding).Fill(padding, 'Z');
}

void PutDirectoryEntry(Bytes& out, const Record& record, uint32_t crc) {
  const uint64_t extra = DirectoryExtraBytes(record);
  const uint16_t version = extra != 0 ? kZip64Version : kPlainVersion;
  out.U32(zip::kDirectorySignature).U16(version).U16(version);
  out.U16(zip::kUtf8Flag).U16(zip::kStored).U32(0);
  out.U32(crc).U32Or64(record.bytes).U32Or64(record.bytes).U16(record.name.size());
  out.U16(extra).U16(0).U16(0).U16(0).U32(0);  // comment, disk, attributes
  out.U32Or64(record.header_offset).Text(record.name);
  if (extra == 0) return;
  out.U16(zip::kZip64Extra).U16(extra - 4);
  if (Needs64(record.bytes)) out.U64(record.bytes).U64(record.bytes);
  if (Needs64(record.header_offset)) out.U64(record.header_offset);
}

class ZipEncoder : public FileEncoder {
 public:
  ZipEncoder(std::vector<OutputTensor> tensors, std::vector<Record> records)
      : tensors_(std::move(tensors)), records_(std::move(records)) {}

  // Places the records one after another.
  Status LayOut() {
    constexpr uint64_t kMaxFileBytes = uint64_t{1} << 63;
    uint64_t at = 0;
    for (Record& record : records_) {
      if (record.name.size() > 0xffff)
        return Unsupported("a record name of {} bytes, the limit is 65535", record.name.size());
      record.header_offset = at;
      const uint64_t unpadded = at + LocalHeaderBytes(record);
      record.data_offset =
          (unpadded + zip::kDataAlignment - 1) / zip::kDataAlignment * zip::kDataAlignment;
      const std::optional<uint64_t> end = CheckedAdd(record.data_offset, record.bytes);
      if (!end || *end > kMaxFileBytes)
        return Unsupported("the archive would have more than {} bytes", kMaxFileBytes)
            .member(record.name);
      at = *end;
      uint64_t part_offset = record.data_offset;
      for (const uint64_t part : record.parts) {
        data_offsets_.push_back(part_offset);
        part_offset += part;
      }
      directory_bytes_ +=
          zip::kDirectoryEntryBytes + record.name.size() + DirectoryExtraBytes(record);
    }
    directory_offset_ = at;
    return OkStatus();
  }

  const std::vector<OutputTensor>& tensors() const override { return tensors_; }
  uint64_t data_offset(size_t index) const override {
    NXDKIT_CHECK(index < data_offsets_.size());
    return data_offsets_[index];
  }
  bool needs_crc() const override { return true; }
  uint64_t file_bytes() const override {
    return directory_offset_ + directory_bytes_ + zip::kEndBytes +
           (NeedsEnd64() ? zip::kEnd64Bytes + zip::kLocatorBytes : 0);
  }

  std::vector<Fragment> Frame(std::span<const uint32_t> crcs) const override {
    NXDKIT_CHECK(crcs.size() == tensors_.size());
    std::vector<Fragment> fragments;
    Bytes directory;
    Bytes open;  // follows the data of the last tensor
    uint64_t open_offset = 0;
    auto tensor_crc = crcs.begin();
    for (const Record& record : records_) {
      uint32_t crc = Crc32(0, std::as_bytes(std::span(record.contents)));
      for (const uint64_t part : record.parts) crc = Crc32Combine(crc, *tensor_crc++, part);
      PutDirectoryEntry(directory, record, crc);
      PutLocalHeader(open, record, crc);
      open.Text(record.contents);
      if (record.parts.empty() || record.bytes == 0) continue;
      fragments.push_back({open_offset, open.Take()});
      open_offset = record.data_offset + record.bytes;
    }
    open.Text(directory.Take());
    PutEnd(open);
    fragments.push_back({open_offset, open.Take()});
    return fragments;
  }

 private:
  bool NeedsEnd64() const {
    return records_.size() >= zip::kCountIn64 || Needs64(directory_offset_) ||
           Needs64(directory_bytes_);
  }

  void PutEnd(Bytes& out) const {
    const uint64_t count = records_.size();
    if (NeedsEnd64()) {
      out.U32(zip::kEnd64Signature).U64(zip::kEnd64Bytes - 12);
      out.U16(kZip64Version).U16(kZip64Version).U32(0).U32(0);
      out.U64(count).U64(count).U64(directory_bytes_).U64(directory_offset_);
      out.U32(zip::kLocatorSignature).U32(0).U64(directory_offset_ + directory_bytes_).U32(1);
    }
    const uint64_t short_count = std::min<uint64_t>(count, zip::kCountIn64);
    out.U32(zip::kEndSignature).U16(0).U16(0).U16(short_count).U16(short_count);
    out.U32Or64(directory_bytes_).U32Or64(directory_offset_).U16(0);
  }

  std::vector<OutputTensor> tensors_;
  std::vector<Record> records_;
  std::vector<uint64_t> data_offsets_;  // of the tensors
  uint64_t directory_offset_ = 0;
  uint64_t directory_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<FileEncoder>> EncodeJoined(const PickleValue& root,
                                                  std::vector<JoinedTensor> tensors,
                                                  const std::string& archive_name) {
  if (archive_name.empty() || archive_name.find('/') != std::string::npos)
    return Error(Errc::kInternal,
                 fmt::format("\"{}\" cannot be the folder inside a torch archive", archive_name));
  std::vector<OutputTensor> pickled, parts;
  for (const JoinedTensor& tensor : tensors) pickled.push_back(tensor.as);
  NXDKIT_ASSIGN(std::string pickle, WritePickle(root, pickled));
  std::vector<Record> records;
  records.reserve(tensors.size() + 3);
  const auto add = [&](const std::string& name, uint64_t bytes) -> Record& {
    Record& record = records.emplace_back();
    record.name = archive_name + "/" + name;
    record.bytes = bytes;
    return record;
  };
  const auto add_text = [&](const std::string& name, std::string contents) {
    add(name, contents.size()).contents = std::move(contents);
  };
  add_text("data.pkl", std::move(pickle));
  add_text("byteorder", "little");
  for (size_t i = 0; i < tensors.size(); ++i) {
    NXDKIT_ASSIGN(const uint64_t bytes, PackedBytes(pickled[i].dtype, pickled[i].shape));
    Record& record = add(fmt::format("data/{}", i), bytes);
    record.contents = std::move(tensors[i].bytes);
    uint64_t sum = record.contents.size();
    for (OutputTensor& part : tensors[i].parts) {
      NXDKIT_ASSIGN(const uint64_t part_bytes, PackedBytes(part.dtype, part.shape));
      record.parts.push_back(part_bytes);
      sum += part_bytes;
      parts.push_back(std::move(part));
    }
    if (sum != bytes)
      return Error(Errc::kInternal, fmt::format("its parts have {} bytes of {}", sum, bytes))
          .on(pickled[i].name);
  }
  add_text("version", "3\n");
  auto encoder = std::make_unique<ZipEncoder>(std::move(parts), std::move(records));
  NXDKIT_TRY(encoder->LayOut());
  return std::unique_ptr<FileEncoder>(std::move(encoder));
}

Result<std::unique_ptr<FileEncoder>> EncodeValue(const PickleValue& root,
                                                 std::vector<OutputTensor> tensors,
                                                 const std::string& archive_name) {
  std::vector<JoinedTensor> alone;
  for (OutputTensor& tensor : tensors) alone.push_back({tensor, {tensor}});
  return EncodeJoined(root, std::move(alone), archive_name);
}

Result<std::unique_ptr<FileEncoder>> EncodeStateDict(std::vector<OutputTensor> tensors,
                                                     const std::string& archive_name) {
  PickleDict items;
  items.reserve(tensors.size());
  std::unordered_set<std::string_view> names;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!names.insert(tensors[i].name).second)
      return Error(Errc::kInternal, "two tensors of one state dict have this name")
          .on(tensors[i].name);
    items.emplace_back(PickleValue{tensors[i].name}, PickleValue{TensorIndex{i}});
  }
  return EncodeValue(PickleValue::MakeDict(std::move(items)), std::move(tensors), archive_name);
}

Result<std::unique_ptr<FileEncoder>> EncodeTensor(OutputTensor tensor,
                                                  const std::string& archive_name) {
  std::vector<OutputTensor> tensors;
  tensors.push_back(std::move(tensor));
  return EncodeValue(PickleValue{TensorIndex{0}}, std::move(tensors), archive_name);
}

Result<std::string> EncodeObject(const PickleValue& value) {
  NXDKIT_ASSIGN(const std::unique_ptr<FileEncoder> archive, EncodeValue(value, {}, "archive"));
  std::string bytes(static_cast<size_t>(archive->file_bytes()), '\0');
  for (const Fragment& fragment : archive->Frame({}))
    bytes.replace(static_cast<size_t>(fragment.offset), fragment.bytes.size(), fragment.bytes);
  return bytes;
}

}  // namespace nxdkit::torch
