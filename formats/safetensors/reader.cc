#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>

#include "formats/safetensors/fault.h"
#include "formats/safetensors/header.h"
#include "formats/safetensors/limits.h"
#include "formats/safetensors/safetensors.h"
#include "lib/system/file.h"

namespace nxdkit::safetensors {
namespace {

Result<uint64_t> ReadLength(const File& file) {
  std::array<std::byte, kLengthBytes> bytes;
  NXDKIT_TRY(file.ReadAt(0, bytes));
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) length = length << 8 | static_cast<uint8_t>(bytes[i]);
  return length;
}

// The header's length, held against the limit first and the file second: the reference's order.
Result<uint64_t> CheckedLength(const File& file, Fault* fault) {
  if (file.bytes() < kLengthBytes)
    return Refuse(Fault::kHeaderTooSmall,
                  fmt::format("the file has {} bytes, the header's length alone takes {}",
                              file.bytes(), kLengthBytes),
                  fault)
        .at(0);
  NXDKIT_ASSIGN(const uint64_t length, ReadLength(file));
  if (length > kMaxHeaderBytes)
    return Refuse(Fault::kHeaderTooLarge,
                  fmt::format("header length {} is over the limit of {}", length, kMaxHeaderBytes),
                  fault)
        .at(0);
  if (length > file.bytes() - kLengthBytes)
    return Refuse(Fault::kInvalidHeaderLength,
                  fmt::format("header length {} is more than the {} bytes that follow it", length,
                              file.bytes() - kLengthBytes),
                  fault)
        .at(0);
  return length;
}

Result<TensorFile> Read(std::shared_ptr<const File> file, Fault* fault) {
  NXDKIT_ASSIGN(const uint64_t length, CheckedLength(*file, fault));
  NXDKIT_ASSIGN(Header header, ParseHeader(*file, length, fault));
  const uint64_t data_begin = kLengthBytes + length;
  NXDKIT_TRY(ValidateLayout(header, data_begin, file->bytes(), fault));

  TensorFile result;
  result.path = file->path();
  result.format = "safetensors";
  result.file_bytes = file->bytes();
  result.tensors = std::move(header.tensors);
  result.metadata = std::move(header.metadata);
  const auto storage = FileStorage(file, data_begin, file->bytes() - data_begin);
  for (StoredTensor& tensor : result.tensors) tensor.storage = storage;
  return result;
}

}  // namespace

Result<TensorFile> Open(const std::string& path, Fault* fault) {
  Fault ignored = Fault::kNone;
  if (fault == nullptr) fault = &ignored;
  *fault = Fault::kNone;
  NXDKIT_ASSIGN(File file, File::OpenRead(path));
  Result<TensorFile> result = Read(std::make_shared<const File>(std::move(file)), fault);
  if (!result.ok()) return std::move(result).error().in(path);
  return result;
}

bool LooksLikeSafetensors(const std::string& path) {
  const Result<File> file = File::OpenRead(path);
  Fault fault = Fault::kNone;
  if (!file.ok()) return false;
  const Result<uint64_t> length = CheckedLength(*file, &fault);
  if (!length.ok() || *length == 0) return false;
  std::byte first{};
  if (!file->ReadAt(kLengthBytes, std::span(&first, 1)).ok()) return false;
  return std::strchr("{ \t\r\n", static_cast<char>(first)) != nullptr && first != std::byte{0};
}

}  // namespace nxdkit::safetensors
