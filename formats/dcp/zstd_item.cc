#include "formats/dcp/zstd_item.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "lib/base/errors.h"
#include "lib/compress/decompressor.h"

namespace nxdkit::dcp {
namespace {

using Sink = std::function<Status(std::span<const std::byte>)>;

// Frame after frame; the last one must end with the bytes.
Result<uint64_t> Stream(FileView packed, uint64_t max_bytes, const Sink& sink) {
  uint64_t at = 0;
  Decompressor item(
      [&](std::span<std::byte> to) -> Result<size_t> {
        const auto part = to.first(std::min<uint64_t>(to.size(), packed.bytes() - at));
        NXDKIT_TRY(packed.ReadAt(at, part));
        at += part.size();
        return part.size();
      },
      Compression::kZstd);
  for (;;) {
    const Result<std::span<const std::byte>> bytes = item.Next();
    if (!bytes.ok() && !bytes.error().file().empty()) return bytes.error();  // of reading
    if (!bytes.ok())
      return Error(bytes.error().code(), bytes.error().message())
          .in(packed.path())
          .at(packed.start() + item.bytes_taken());
    if (bytes->empty()) return item.bytes_made();
    if (item.bytes_made() > max_bytes)
      return Corrupt("the item decompresses to more than the {} bytes that it can have", max_bytes)
          .in(packed.path())
          .at(packed.start());
    NXDKIT_TRY(sink(*bytes));
  }
}

class ItemStorage : public Storage {
 public:
  ItemStorage(std::shared_ptr<const Storage> storage, std::string path, uint64_t offset)
      : storage_(std::move(storage)), path_(std::move(path)), offset_(offset) {}
  uint64_t bytes() const override { return storage_->bytes(); }
  Status ReadAt(uint64_t offset, std::span<std::byte> to) const override {
    return storage_->ReadAt(offset, to);
  }
  const std::string& path() const override { return path_; }
  uint64_t file_offset() const override { return offset_; }

 private:
  std::shared_ptr<const Storage> storage_;
  std::string path_;
  uint64_t offset_;
};

}  // namespace

Result<uint64_t> Decompress(FileView packed, uint64_t max_bytes, const File& to, uint64_t at) {
  uint64_t end = at;
  return Stream(packed, max_bytes, [&](std::span<const std::byte> bytes) -> Status {
    NXDKIT_TRY(to.WriteAt(end, bytes));
    end += bytes.size();
    return OkStatus();
  });
}

Result<std::string> Decompressed(FileView packed, uint64_t max_bytes) {
  std::string text;
  NXDKIT_TRY(Stream(packed, max_bytes, [&](std::span<const std::byte> bytes) {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return OkStatus();
  }));
  return text;
}

std::shared_ptr<const Storage> DecompressedStorage(std::shared_ptr<const Storage> storage,
                                                   std::string path, uint64_t offset) {
  return std::make_shared<ItemStorage>(std::move(storage), std::move(path), offset);
}

}  // namespace nxdkit::dcp
