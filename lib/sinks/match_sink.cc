#include "lib/sinks/match_sink.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "lib/hash/crc32.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit {
namespace {

constexpr uint64_t kPieceBytes = 256 << 10;

Status MatchAt(const File& file, uint64_t offset, std::span<const std::byte> bytes) {
  std::vector<std::byte> found(static_cast<size_t>(std::min<uint64_t>(bytes.size(), kPieceBytes)));
  for (size_t at = 0; at < bytes.size(); at += found.size()) {
    const auto expected = bytes.subspan(at, std::min(found.size(), bytes.size() - at));
    const auto piece = std::span(found).first(expected.size());
    NXDKIT_TRY(file.ReadAt(offset + at, piece));
    if (std::memcmp(expected.data(), piece.data(), piece.size()) == 0) continue;
    const auto differ = std::ranges::mismatch(expected, piece);
    return Error(Errc::kFindings, fmt::format("byte {:02x} is there, expected {:02x}",
                                              static_cast<unsigned>(*differ.in2),
                                              static_cast<unsigned>(*differ.in1)))
        .in(file.path())
        .at(offset + at + static_cast<uint64_t>(differ.in1 - expected.begin()));
  }
  return OkStatus();
}

Result<File> OpenOfSize(const std::string& path, uint64_t bytes) {
  NXDKIT_ASSIGN(const PathKind kind, KindOf(path));
  if (kind != PathKind::kFile)
    return Error(Errc::kFindings,
                 kind == PathKind::kMissing ? "there is no such file" : "this is not a file")
        .in(path);
  NXDKIT_ASSIGN(File file, File::OpenRead(path));
  if (file.bytes() == bytes) return file;
  return Error(Errc::kFindings, fmt::format("found {} bytes, expected {}", file.bytes(), bytes))
      .in(path);
}

}  // namespace

Status MatchFileSize(const std::string& path, uint64_t bytes) {
  NXDKIT_TRY(OpenOfSize(path, bytes));
  return OkStatus();
}

Status MatchFile(const std::string& path, std::span<const std::byte> contents) {
  NXDKIT_ASSIGN(const File file, OpenOfSize(path, contents.size()));
  return MatchAt(file, 0, contents);
}

Status MatchCopy(const std::string& path, const std::string& original) {
  NXDKIT_ASSIGN(const File expected, File::OpenRead(original));
  NXDKIT_ASSIGN(const File file, OpenOfSize(path, expected.bytes()));
  std::vector<std::byte> piece(static_cast<size_t>(std::min(expected.bytes(), kPieceBytes)));
  for (uint64_t at = 0; at < expected.bytes(); at += piece.size()) {
    const auto part =
        std::span(piece).first(std::min<uint64_t>(piece.size(), expected.bytes() - at));
    NXDKIT_TRY(expected.ReadAt(at, part));
    NXDKIT_TRY(MatchAt(file, at, part));
  }
  return OkStatus();
}

Result<std::unique_ptr<MatchSink>> MatchSink::Begin(const std::string& folder, const Layout& layout,
                                                    std::vector<OutputFile> files) {
  std::unique_ptr<MatchSink> sink(new MatchSink());
  sink->files_ = OutputFiles(folder, layout, std::move(files));
  for (size_t f = 0; f < sink->files_.size(); ++f)
    NXDKIT_TRY(MatchFileSize(sink->files_.Path(f), sink->files_.encoder(f).file_bytes()));
  return sink;
}

Status MatchSink::Match(size_t file, uint64_t offset, std::span<const std::byte> bytes) {
  NXDKIT_ASSIGN(const std::shared_ptr<const File> open, cache_.Get(files_.Path(file)));
  return MatchAt(*open, offset, bytes);
}

Status MatchSink::Take(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) {
  const uint32_t file = files_.FileOf(tensor);
  NXDKIT_TRY(Match(file, files_.DataOffset(tensor) + offset, bytes).on(files_.NameOf(tensor)));
  if (!files_.encoder(file).needs_crc()) return OkStatus();
  const uint32_t crc = Crc32(0, bytes);
  const std::lock_guard lock(mutex_);
  files_.AddCrc(tensor, offset, bytes.size(), crc);
  return OkStatus();
}

Status MatchSink::Finish() {
  for (size_t f = 0; f < files_.size(); ++f) {
    NXDKIT_ASSIGN(const std::vector<uint32_t> crcs, files_.Crcs(f));
    NXDKIT_TRY(files_.encoder(f).ForEachFragment(
        crcs, [&](uint64_t offset, std::span<const std::byte> bytes) {
          return Match(static_cast<uint32_t>(f), offset, bytes);
        }));
  }
  return OkStatus();
}

}  // namespace nxdkit
