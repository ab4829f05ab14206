#include "lib/compress/compressor.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <utility>

#include "lib/base/errors.h"

namespace nxdkit {
namespace {

constexpr size_t kPackedBytes = 256 << 10;
constexpr size_t kBytesAtOnce = 64 << 20;  // at once: zlib counts in 32 bits
constexpr int kWindowAndHeader = 16 + 15;  // tells zlib to write a gzip header, without a time
constexpr int kDeflateMemory = 8;          // zlib's own default

}  // namespace

void Compressor::FreeDeflate::operator()(z_stream_s* stream) const {
  ::deflateEnd(stream);
  delete stream;
}
void Compressor::FreeZstd::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }

Compressor::Compressor(Target target) : target_(std::move(target)) {}
Compressor::Compressor(Compressor&&) noexcept = default;
Compressor::~Compressor() = default;

Result<Compressor> Compressor::Make(Compression compression, std::optional<int> level,
                                    Target target) {
  Compressor made(std::move(target));
  if (compression == Compression::kNone) return made;
  made.out_.resize(kPackedBytes);
  if (compression == Compression::kZstd) {
    made.zstd_.reset(ZSTD_createCCtx());
    if (!made.zstd_) return OverLimit("the system gave no memory");
    if (level && (*level < 0 || *level > ZSTD_maxCLevel()))
      return BadUsage("zstd has no level {}", *level);
    ZSTD_CCtx_setParameter(made.zstd_.get(), ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(made.zstd_.get(), ZSTD_c_compressionLevel,
                           level.value_or(ZSTD_defaultCLevel()));
    return made;
  }
  if (level && (*level < 0 || *level > Z_BEST_COMPRESSION))
    return BadUsage("gzip has no level {}", *level);
  auto stream = std::make_unique<z_stream_s>();
  if (::deflateInit2(stream.get(), level.value_or(Z_DEFAULT_COMPRESSION), Z_DEFLATED,
                     kWindowAndHeader, kDeflateMemory, Z_DEFAULT_STRATEGY) != Z_OK)
    return OverLimit("the system gave no memory");
  made.deflate_.reset(stream.release());
  return made;
}

Status Compressor::Deflate(std::span<const std::byte> bytes, bool end) {
  z_stream_s& stream = *deflate_;
  // zlib only reads them.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  for (bool more = true; more;) {
    stream.next_out = reinterpret_cast<Bytef*>(out_.data());
    stream.avail_out = static_cast<uInt>(out_.size());
    const int code = ::deflate(&stream, end ? Z_FINISH : Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
      return Error(Errc::kInternal, "zlib: deflate failed");
    const auto made = std::span<const std::byte>(out_).first(out_.size() - stream.avail_out);
    if (!made.empty()) NXDKIT_TRY(target_(made));
    more = end ? code != Z_STREAM_END : stream.avail_in > 0 || stream.avail_out == 0;
  }
  return OkStatus();
}

Status Compressor::Zstd(std::span<const std::byte> bytes, bool end) {
  ZSTD_inBuffer from = {bytes.data(), bytes.size(), 0};
  for (bool more = true; more;) {
    ZSTD_outBuffer to = {out_.data(), out_.size(), 0};
    const size_t left =
        ZSTD_compressStream2(zstd_.get(), &to, &from, end ? ZSTD_e_end : ZSTD_e_continue);
    if (ZSTD_isError(left)) return OverLimit("zstd: {}", ZSTD_getErrorName(left));
    const auto made = std::span<const std::byte>(out_).first(to.pos);
    if (!made.empty()) NXDKIT_TRY(target_(made));
    more = end ? left > 0 : from.pos < from.size;
  }
  return OkStatus();
}

Status Compressor::Put(std::span<const std::byte> bytes, bool end) {
  if (zstd_) return Zstd(bytes, end);
  if (deflate_) return Deflate(bytes, end);
  return bytes.empty() ? OkStatus() : target_(bytes);
}

Status Compressor::Add(std::span<const std::byte> bytes) {
  for (size_t at = 0; at < bytes.size(); at += kBytesAtOnce)
    NXDKIT_TRY(Put(bytes.subspan(at, std::min(kBytesAtOnce, bytes.size() - at)), false));
  return OkStatus();
}

Status Compressor::Finish() { return Put({}, true); }

}  // namespace nxdkit
