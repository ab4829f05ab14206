// A stream through gzip or zstd, with the checksum that lets a reader verify it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/error.h"
#include "lib/compress/compression.h"

struct z_stream_s;
struct ZSTD_CCtx_s;

namespace nxdkit {

// For one thread. The same bytes and level give the same stream, however the input is cut.
class Compressor {
 public:
  using Target = std::function<Status(std::span<const std::byte>)>;

  // `level`: 0 to 9 for gzip, up to 22 for zstd; absent: their default. kUsage for any other.
  static Result<Compressor> Make(Compression compression, std::optional<int> level, Target target);
  Compressor(Compressor&&) noexcept;
  ~Compressor();

  Status Add(std::span<const std::byte> bytes);
  Status Finish();  // the end of the stream; nothing may be added after it

 private:
  struct FreeDeflate {
    void operator()(z_stream_s* stream) const;
  };
  struct FreeZstd {
    void operator()(ZSTD_CCtx_s* context) const;
  };

  explicit Compressor(Target target);
  Status Deflate(std::span<const std::byte> bytes, bool end);
  Status Zstd(std::span<const std::byte> bytes, bool end);
  Status Put(std::span<const std::byte> bytes, bool end);

  Target target_;
  std::unique_ptr<z_stream_s, FreeDeflate> deflate_;
  std::unique_ptr<ZSTD_CCtx_s, FreeZstd> zstd_;  // both null: nothing is compressed
  std::vector<std::byte> out_;
};

}  // namespace nxdkit
