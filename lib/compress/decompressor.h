// A stream of bytes decompressed from gzip or zstd and verified by the checksums in it. No byte
// behind the wanted ones stays unread, and so none unchecked.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/error.h"
#include "lib/compress/compression.h"

struct z_stream_s;
struct ZSTD_DCtx_s;

namespace nxdkit {

// For one thread. Memory is bounded by the largest zstd window that is accepted, 128 MiB.
class Decompressor {
 public:
  // Fills `to`, which is not empty, with one byte or more; 0 at the end.
  using Source = std::function<Result<size_t>(std::span<std::byte> to)>;

  // Detects the compression from the first bytes of the stream, unless `only` gives it.
  explicit Decompressor(Source source, std::optional<Compression> only = std::nullopt);
  ~Decompressor();

  // The next bytes, valid until the next call; none at the proper end of the stream. kCorrupt at
  // the offset in the compressed stream, and the errors of the source.
  Result<std::span<const std::byte>> Next();
  Status Drain(const std::function<Status()>& poll = {});  // reads to the end, for the checksums

  // Whether a checksum covers all bytes returned so far, known after the first Next(): true for
  // gzip; for zstd it depends on the frame.
  bool has_checksums() const { return has_checksums_; }
  uint64_t bytes_taken() const { return read_ - (end_ - at_); }  // of the compressed stream
  uint64_t bytes_made() const { return made_; }

 private:
  struct FreeInflate {
    void operator()(z_stream_s* stream) const;
  };
  struct FreeZstd {
    void operator()(ZSTD_DCtx_s* context) const;
  };

  Status Begin();
  Status Fill(size_t least);
  std::span<const std::byte> Left() const { return std::span(in_).subspan(at_, end_ - at_); }
  Error Damaged(const char* what, const char* why) const;
  Status EndOfMembers(bool& ended);
  Status BeginFrame(bool& ended);
  Result<size_t> Inflate();
  Result<size_t> Unzstd();
  Result<std::span<const std::byte>> Decode();

  Source source_;
  std::optional<Compression> compression_;
  std::unique_ptr<z_stream_s, FreeInflate> inflate_;
  std::unique_ptr<ZSTD_DCtx_s, FreeZstd> zstd_;
  std::vector<std::byte> in_;
  size_t at_ = 0;  // in in_: where unread bytes begin
  size_t end_ = 0;
  bool source_ended_ = false;
  uint64_t read_ = 0;
  std::vector<std::byte> out_;
  uint64_t made_ = 0;
  bool begun_ = false;
  bool between_ = true;  // frames of zstd, or members of gzip
  bool first_ = true;
  bool has_checksums_ = false;
};

}  // namespace nxdkit
