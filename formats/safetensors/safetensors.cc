#include "formats/safetensors/safetensors.h"

#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "formats/safetensors/header.h"
#include "formats/safetensors/limits.h"
#include "lib/base/errors.h"
#include "lib/base/little_endian.h"
#include "lib/system/broken_download.h"
#include "lib/system/file.h"

namespace nxdkit::safetensors {
namespace {

// The header's length, checked against the limit first and the file second: the reference's order.
Result<uint64_t> ReadLength(const File& file) {
  if (file.bytes() < kLengthBytes)
    return Corrupt("HeaderTooSmall: the file has {} bytes, the header's length alone takes {}",
                   file.bytes(), kLengthBytes)
        .at(0);
  std::array<std::byte, kLengthBytes> bytes;
  NXDKIT_TRY(file.ReadAt(0, bytes));
  const uint64_t length = LoadLittle<uint64_t>(bytes);
  if (length > kMaxHeaderBytes)
    return Corrupt("HeaderTooLarge: header length {} is over the limit of {}", length,
                   kMaxHeaderBytes)
        .at(0);
  if (length > file.bytes() - kLengthBytes)
    return Corrupt("InvalidHeaderLength: header length {} is more than the {} bytes that follow it",
                   length, file.bytes() - kLengthBytes)
        .at(0);
  return length;
}

Result<TensorFile> Read(std::shared_ptr<const File> file) {
  NXDKIT_ASSIGN(const uint64_t length, ReadLength(*file));
  NXDKIT_ASSIGN(Header header, ParseHeader(*file, length));
  const uint64_t data_begin = kLengthBytes + length;
  NXDKIT_TRY(ValidateLayout(header, data_begin, file->bytes()));

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

Result<TensorFile> Open(const std::string& path) {
  NXDKIT_ASSIGN(File file, File::OpenRead(path));
  return OrWrongAnswer(Read(std::make_shared<const File>(std::move(file))).in(path), path);
}

Result<bool> LooksLikeSafetensors(const std::string& path) {
  // The length alone says little: the start of a JSON text must follow.
  NXDKIT_ASSIGN(const std::string start, ReadStart(path, kLengthBytes + 1));
  if (start.size() <= kLengthBytes) return false;
  NXDKIT_ASSIGN(const File file, File::OpenRead(path));
  const Result<uint64_t> length = ReadLength(file);
  if (!length.ok() && length.error().code() == Errc::kIo) return length.error();
  const char first = start[kLengthBytes];
  return length.ok() && *length > 0 && first != '\0' && std::strchr("{ \t\r\n", first) != nullptr;
}

}  // namespace nxdkit::safetensors
