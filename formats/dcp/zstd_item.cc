#include "formats/dcp/zstd_item.h"

#include <zstd.h>

#include <algorithm>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/errors.h"

namespace nxdkit::dcp {
namespace {

constexpr int kMaxWindowLog = 27;  // what zstd itself takes if nobody asks for more

struct FreeStream {
  void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
};

using Sink = std::function<Status(std::span<const std::byte>)>;

Error Refused(FileView packed, uint64_t at, Error error) {
  return std::move(error).in(packed.path()).at(packed.start() + at);
}

// Frame after frame, until the bytes end with one.
Result<uint64_t> Stream(FileView packed, uint64_t max_bytes, const Sink& sink) {
  const std::unique_ptr<ZSTD_DStream, FreeStream> stream(ZSTD_createDStream());
  NXDKIT_CHECK(stream != nullptr);
  ZSTD_DCtx_setParameter(stream.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
  std::vector<std::byte> in(ZSTD_DStreamInSize());
  std::vector<std::byte> out(ZSTD_DStreamOutSize());
  uint64_t bytes = 0;
  size_t hint = 1;  // 0: a frame has ended
  for (uint64_t at = 0; at < packed.bytes();) {
    const size_t size = static_cast<size_t>(std::min<uint64_t>(in.size(), packed.bytes() - at));
    NXDKIT_TRY(packed.ReadAt(at, std::span(in).first(size)));
    ZSTD_inBuffer from = {in.data(), size, 0};
    bool full = false;  // the output was, and so there may be more
    while (from.pos < from.size || full) {
      ZSTD_outBuffer to = {out.data(), out.size(), 0};
      hint = ZSTD_decompressStream(stream.get(), &to, &from);
      if (ZSTD_isError(hint))
        return Refused(packed, at + from.pos,
                       Corrupt("the item does not decompress: {}", ZSTD_getErrorName(hint)));
      bytes += to.pos;
      if (bytes > max_bytes)
        return Refused(
            packed, 0,
            Corrupt("the item decompresses to more than the {} bytes that it can have", max_bytes));
      NXDKIT_TRY(sink(std::span<const std::byte>(out).first(to.pos)));
      full = to.pos == to.size && hint != 0;
    }
    at += size;
  }
  if (hint != 0)
    return Refused(packed, packed.bytes(), Corrupt("the item ends inside of a frame of zstd"));
  return bytes;
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
