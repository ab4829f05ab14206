#include "lib/compress/decompressor.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <utility>

#include "lib/base/errors.h"

namespace nxdkit {
namespace {

constexpr size_t kInBytes = 256 << 10;
constexpr size_t kOutBytes = 256 << 10;
constexpr int kMaxWindowLog = 27;       // zstd's own default
constexpr int kGzipWindow = 16 + 15;    // tells zlib to expect a gzip header
constexpr size_t kFrameHeadBytes = 5;   // of zstd: the magic number and the frame descriptor
constexpr unsigned kFrameChecksum = 4;  // in the fifth byte
constexpr std::byte kGzipMagic[] = {std::byte{0x1f}, std::byte{0x8b}};
constexpr std::byte kZstdMagic[] = {std::byte{0x28}, std::byte{0xb5}, std::byte{0x2f},
                                    std::byte{0xfd}};

template <size_t N>
bool StartsWith(std::span<const std::byte> bytes, const std::byte (&magic)[N]) {
  return bytes.size() >= N && std::equal(magic, magic + N, bytes.begin());
}

// A frame that decompresses to nothing, which zstd allows before the others.
bool IsSkippable(std::span<const std::byte> head) {
  return head.size() >= 4 && (head[0] & std::byte{0xf0}) == std::byte{0x50} &&
         head[1] == std::byte{0x2a} && head[2] == std::byte{0x4d} && head[3] == std::byte{0x18};
}

}  // namespace

void Decompressor::FreeInflate::operator()(z_stream_s* stream) const {
  ::inflateEnd(stream);
  delete stream;
}
void Decompressor::FreeZstd::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

Decompressor::Decompressor(Source source, std::optional<Compression> only)
    : source_(std::move(source)), compression_(only), in_(kInBytes) {}
Decompressor::~Decompressor() = default;

// Reads until `least` bytes are there, or the source has no more.
Status Decompressor::Fill(size_t least) {
  if (end_ - at_ >= least) return OkStatus();
  std::copy(in_.begin() + static_cast<std::ptrdiff_t>(at_),
            in_.begin() + static_cast<std::ptrdiff_t>(end_), in_.begin());
  end_ -= at_;
  at_ = 0;
  while (end_ < least && !source_ended_) {
    NXDKIT_ASSIGN(const size_t got, source_(std::span(in_).subspan(end_)));
    source_ended_ = got == 0;
    end_ += got;
    read_ += got;
  }
  return OkStatus();
}

Error Decompressor::Damaged(const char* what, const char* why) const {
  return Corrupt("the {} stream {}", what, why).at(bytes_taken());
}

Status Decompressor::Begin() {
  begun_ = true;
  NXDKIT_TRY(Fill(kFrameHeadBytes));
  if (!compression_)
    compression_ = StartsWith(Left(), kGzipMagic)                          ? Compression::kGzip
                   : StartsWith(Left(), kZstdMagic) || IsSkippable(Left()) ? Compression::kZstd
                                                                           : Compression::kNone;
  has_checksums_ = *compression_ != Compression::kNone;
  if (*compression_ == Compression::kNone) return OkStatus();
  out_.resize(kOutBytes);
  if (*compression_ == Compression::kZstd) {
    zstd_.reset(ZSTD_createDCtx());
    if (!zstd_) return OverLimit("the system gave no memory");
    ZSTD_DCtx_setParameter(zstd_.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
    return OkStatus();
  }
  auto stream = std::make_unique<z_stream_s>();
  if (::inflateInit2(stream.get(), kGzipWindow) != Z_OK)
    return OverLimit("the system gave no memory");
  inflate_.reset(stream.release());
  return OkStatus();
}

// A gzip stream may have several members, and zeros after the last, as gzip itself accepts.
Status Decompressor::EndOfMembers(bool& ended) {
  NXDKIT_TRY(Fill(sizeof kGzipMagic));
  if (!first_ && end_ > at_ && in_[at_] == std::byte{0}) {
    while (end_ > at_) {
      const auto left = Left();
      const auto other = std::ranges::find_if(left, [](std::byte b) { return b != std::byte{0}; });
      at_ += static_cast<size_t>(other - left.begin());
      if (other != left.end()) return Damaged("gzip", "has other bytes after its end");
      NXDKIT_TRY(Fill(1));
    }
  }
  ended = !first_ && end_ == at_;
  if (ended) return OkStatus();
  if (!StartsWith(Left(), kGzipMagic))
    return Damaged("gzip", first_ ? "does not begin like one" : "has other bytes after its end");
  ::inflateReset(inflate_.get());
  first_ = between_ = false;
  return OkStatus();
}

Status Decompressor::BeginFrame(bool& ended) {
  NXDKIT_TRY(Fill(kFrameHeadBytes));
  const auto head = Left();
  ended = !first_ && head.empty();
  if (ended) return OkStatus();
  const bool data = StartsWith(head, kZstdMagic);
  if (!data && !IsSkippable(head))
    return Damaged("zstd", first_ ? "does not begin like one" : "has other bytes after its end");
  if (data && head.size() >= kFrameHeadBytes)
    has_checksums_ &= (std::to_integer<unsigned>(head[4]) & kFrameChecksum) != 0;
  first_ = between_ = false;
  return OkStatus();
}

// Decompresses into out_; returns the number of bytes.
Result<size_t> Decompressor::Inflate() {
  NXDKIT_TRY(Fill(1));
  if (end_ == at_) return Damaged("gzip", "is cut off");
  z_stream_s& stream = *inflate_;
  stream.next_in = reinterpret_cast<Bytef*>(in_.data() + at_);
  stream.avail_in = static_cast<uInt>(end_ - at_);
  stream.next_out = reinterpret_cast<Bytef*>(out_.data());
  stream.avail_out = static_cast<uInt>(out_.size());
  const int code = ::inflate(&stream, Z_NO_FLUSH);
  at_ = end_ - stream.avail_in;
  if (code == Z_MEM_ERROR) return OverLimit("the system gave no memory");
  if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
    return Corrupt("the gzip stream does not decompress: {}", stream.msg ? stream.msg : "no reason")
        .at(bytes_taken());
  between_ = code == Z_STREAM_END;
  return out_.size() - stream.avail_out;
}

// Decompresses into out_; returns the number of bytes. Without more input, zstd's remaining output.
Result<size_t> Decompressor::Unzstd() {
  NXDKIT_TRY(Fill(1));
  ZSTD_inBuffer from = {in_.data() + at_, end_ - at_, 0};
  ZSTD_outBuffer to = {out_.data(), out_.size(), 0};
  const size_t hint = ZSTD_decompressStream(zstd_.get(), &to, &from);
  at_ += from.pos;
  if (ZSTD_isError(hint))
    return Corrupt("the zstd stream does not decompress: {}", ZSTD_getErrorName(hint))
        .at(bytes_taken());
  between_ = hint == 0;
  if (!between_ && from.size == 0 && to.pos == 0) return Damaged("zstd", "is cut off");
  return to.pos;
}

Result<std::span<const std::byte>> Decompressor::Decode() {
  const bool gzip = *compression_ == Compression::kGzip;
  for (;;) {
    bool ended = false;
    if (between_) NXDKIT_TRY(gzip ? EndOfMembers(ended) : BeginFrame(ended));
    if (ended) return std::span<const std::byte>();
    NXDKIT_ASSIGN(const size_t size, gzip ? Inflate() : Unzstd());
    if (size > 0) return std::span<const std::byte>(out_).first(size);
  }
}

Result<std::span<const std::byte>> Decompressor::Next() {
  if (!begun_) NXDKIT_TRY(Begin());
  std::span<const std::byte> bytes;
  if (*compression_ != Compression::kNone) {
    NXDKIT_ASSIGN(bytes, Decode());
  } else {
    NXDKIT_TRY(Fill(1));
    bytes = Left();
    at_ = end_;
  }
  made_ += bytes.size();
  return bytes;
}

Status Decompressor::Drain(const std::function<Status()>& poll) {
  for (;;) {
    if (poll) NXDKIT_TRY(poll());
    NXDKIT_ASSIGN(const auto bytes, Next());
    if (bytes.empty()) return OkStatus();
  }
}

}  // namespace nxdkit
