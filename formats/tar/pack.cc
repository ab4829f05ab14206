#include "formats/tar/pack.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <vector>

#include "formats/rollout/weight_slots.h"
#include "formats/tar/stream_sum.h"
#include "lib/base/errors.h"
#include "lib/compress/compressor.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/staging.h"
#include "lib/system/utf8_locale.h"

namespace nxdkit::tar {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr int kBlockBytesOut = 256 << 10;
// No padding after the archive: blocks of 10 KiB are for tape drives, and zstd takes zeros after
// its last frame for damage.
constexpr int kLastBlockBytes = 1;

// In the order of Compression.
struct Row {
  Compression compression;
  std::string_view name;
  std::string_view short_ending;
};
constexpr Row kRows[] = {{Compression::kNone, "tar", ""},
                         {Compression::kZstd, "tar.zst", ".tzst"},
                         {Compression::kGzip, "tar.gz", ".tgz"}};

struct Member {
  std::string name;  // in the archive
  std::string path;
  bool folder = false;
  uint64_t bytes = 0;
};

struct Listing {
  std::vector<Member> members;
  // For bundles that may be refreshed meanwhile: one version of each is listed and read.
  std::vector<rollout::PinnedWeights> pinned;
};

// The folder from which files are listed and read.
Result<std::string> PlaceOf(const std::string& folder, Listing& out) {
  NXDKIT_ASSIGN(const bool are_weights, rollout::AreWeights(folder));
  if (!are_weights) return folder;
  NXDKIT_ASSIGN(rollout::PinnedWeights weights, rollout::PinWeights(folder));
  if (weights.half_done) return rollout::HalfWritten(weights.folder);
  std::string place = rollout::PlaceOf(weights.folder, *weights.lock);
  out.pinned.push_back(std::move(weights));
  return place;
}

// Sorted by name, folders before their contents. Links are followed, so depth is limited.
Status List(const std::string& given, const std::string& prefix, size_t depth, Listing& out) {
  NXDKIT_ASSIGN(const std::string folder, PlaceOf(given, out));
  if (depth > kMaxDepth)
    return Unsupported("folders are over {} deep; does a link lead to a folder around it?",
                       kMaxDepth)
        .in(folder);
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(folder));
  for (const std::string& name : names) {
    // The slots of a bundle that is refreshed: the current one is packed as the target of
    // `weights`.
    if (name.starts_with(".weights.")) continue;
    Member member{prefix + name, JoinPath(folder, name)};
    NXDKIT_ASSIGN(const PathKind kind, KindOf(member.path).in(JoinPath(given, name)));
    if (kind == PathKind::kMissing)
      return NotFound("it disappeared while the folder was listed").in(JoinPath(given, name));
    if (kind == PathKind::kOther)
      return Unsupported("neither a file nor a folder").in(JoinPath(given, name));
    member.folder = kind == PathKind::kFolder;
    if (!member.folder) {
      NXDKIT_ASSIGN(const File file, File::OpenRead(member.path));
      member.bytes = file.bytes();
    }
    out.members.push_back(member);
    if (member.folder) NXDKIT_TRY(List(member.path, member.name + "/", depth + 1, out));
  }
  return OkStatus();
}

Status ListInput(const std::string& path, Listing& out) {
  NXDKIT_ASSIGN(const PathKind kind, KindOf(path));
  if (kind == PathKind::kMissing) return NotFound("no such file or folder").in(path);
  if (kind == PathKind::kOther) return Unsupported("neither a file nor a folder").in(path);
  if (kind == PathKind::kFile) {
    NXDKIT_ASSIGN(const File file, File::OpenRead(path));
    out.members.push_back({BaseName(path), path, false, file.bytes()});
    return OkStatus();
  }
  NXDKIT_TRY(List(path, "", 0, out));
  // A single file would look like the archive of a file.
  if (out.members.size() == 1 && !out.members.front().folder)
    out.members.insert(out.members.begin(), {".", path, true, 0});
  return OkStatus();
}

// The destination of the archive's bytes, in order: a file or standard output.
struct Target {
  int fd = -1;
  std::string path;
  uint64_t bytes = 0;

  Status Write(std::span<const std::byte> from) {
    while (!from.empty()) {
      const ssize_t written = ::write(fd, from.data(), from.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return OutputError("write the archive", errno).in(path);
      from = from.subspan(static_cast<size_t>(written));
      bytes += static_cast<uint64_t>(written);
    }
    return OkStatus();
  }
};

// libarchive's output, on its way to the target.
struct Stream {
  Compressor compressor;
  StreamSum sum;
  Status status;

  Status Add(std::span<const std::byte> bytes) {
    sum.Add(bytes);
    return compressor.Add(bytes);
  }
};

la_ssize_t WriteStream(archive*, void* context, const void* bytes, size_t count) {
  Stream& stream = *static_cast<Stream*>(context);
  stream.status = stream.Add({static_cast<const std::byte*>(bytes), count});
  return stream.status.ok() ? static_cast<la_ssize_t>(count) : -1;
}

using Writer = std::unique_ptr<archive, int (*)(archive*)>;

Error WriteError(archive* writer, const Stream& stream, const std::string& path) {
  if (!stream.status.ok()) return stream.status.error();
  const char* text = archive_error_string(writer);
  return Error(Errc::kIo, fmt::format("cannot write the archive: {}", text ? text : "no reason"))
      .in(path);
}

Result<Writer> OpenWriter(Stream& stream, const std::string& path) {
  Writer writer(archive_write_new(), archive_write_free);
  if (!writer) return OverLimit("the system gave no memory");
  // ustar headers, with pax records only for values that do not fit.
  int status = archive_write_set_format_pax_restricted(writer.get());
  status = std::min(status, archive_write_set_bytes_per_block(writer.get(), kBlockBytesOut));
  status = std::min(status, archive_write_set_bytes_in_last_block(writer.get(), kLastBlockBytes));
  status =
      std::min(status, archive_write_open(writer.get(), &stream, nullptr, WriteStream, nullptr));
  if (status != ARCHIVE_OK) return WriteError(writer.get(), stream, path);
  return writer;
}

struct Packer {
  const PackRequest& request;
  archive* writer;
  const Stream& stream;
  std::vector<std::byte> buffer = std::vector<std::byte>(kBufferBytes);

  Status Add(const Member& member) {
    const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(),
                                                                         archive_entry_free);
    if (archive_entry_update_pathname_utf8(entry.get(), member.name.c_str()) == 0)
      return Unsupported("the name is not UTF-8").in(member.path);
    archive_entry_set_filetype(entry.get(), member.folder ? AE_IFDIR : AE_IFREG);
    archive_entry_set_perm(entry.get(), member.folder ? 0755 : 0644);
    archive_entry_set_mtime(entry.get(), 0, 0);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(member.bytes));
    if (archive_write_header(writer, entry.get()) != ARCHIVE_OK)
      return WriteError(writer, stream, request.output);
    if (member.folder) return OkStatus();
    NXDKIT_TRY(AddBytes(member).member(member.name));
    return OkStatus();
  }

  Status AddBytes(const Member& member) {
    NXDKIT_ASSIGN(const File file, File::OpenRead(member.path));
    for (uint64_t at = 0; at < member.bytes;) {
      if (request.hooks.poll) NXDKIT_TRY(request.hooks.poll());
      const std::span<std::byte> part =
          std::span(buffer).first(std::min<uint64_t>(buffer.size(), member.bytes - at));
      NXDKIT_TRY(file.ReadAt(at, part));
      if (archive_write_data(writer, part.data(), part.size()) !=
          static_cast<la_ssize_t>(part.size()))
        return WriteError(writer, stream, request.output);
      at += part.size();
      if (request.hooks.on_bytes) request.hooks.on_bytes(part.size());
    }
    return OkStatus();
  }
};

Result<Compressor> MakeCompressor(const PackRequest& request, Target& target) {
  const bool compresses = request.compression != Compression::kNone;
  Result<Compressor> compressor =
      Compressor::Make(request.compression, compresses ? request.level : std::nullopt,
                       [&target](std::span<const std::byte> bytes) { return target.Write(bytes); });
  if (!compressor.ok() && compressor.error().code() == Errc::kUsage)
    return BadUsage("{} has no level {}", kRows[static_cast<size_t>(request.compression)].name,
                    *request.level);
  return compressor;
}

Result<TransportReport> PackTo(const PackRequest& request, const Listing& listing, Target& target) {
  const Utf8Locale utf8;
  TransportReport report;
  report.single_file = listing.members.size() == 1 && !listing.members.front().folder;
  for (const Member& member : listing.members) {
    report.files += member.folder ? 0 : 1;
    report.bytes += member.bytes;
  }
  if (request.hooks.begin) request.hooks.begin("packing", report.bytes);
  NXDKIT_ASSIGN(Compressor compressor, MakeCompressor(request, target));
  Stream stream{std::move(compressor), {}, {}};
  NXDKIT_ASSIGN(const Writer writer, OpenWriter(stream, target.path));
  Packer packer{request, writer.get(), stream};
  for (const Member& member : listing.members) NXDKIT_TRY(packer.Add(member));
  if (archive_write_close(writer.get()) != ARCHIVE_OK)
    return WriteError(writer.get(), stream, target.path);
  // The others have the checksum of their compression.
  if (request.compression == Compression::kNone)
    NXDKIT_TRY(stream.compressor.Add(stream.sum.Record()));
  NXDKIT_TRY(stream.compressor.Finish());
  report.archive_bytes = target.bytes;
  report.has_checksum = true;
  return report;
}

}  // namespace

std::optional<Compression> CompressionFromName(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.compression;
  return std::nullopt;
}

std::optional<Compression> CompressionOf(std::string_view path) {
  for (const Row& row : kRows)
    if (path.ends_with("." + std::string(row.name)) ||
        (!row.short_ending.empty() && path.ends_with(row.short_ending)))
      return row.compression;
  return std::nullopt;
}

Result<TransportReport> Pack(const PackRequest& request) {
  Listing listing;
  NXDKIT_TRY(ListInput(request.input, listing));
  if (request.output == kStream) {
    Target target{STDOUT_FILENO, "standard output"};
    return PackTo(request, listing, target);
  }
  NXDKIT_ASSIGN(Staging staging,
                Staging::Begin(request.output,
                               {.replace = request.force, .folder = false, .sync = request.sync}));
  NXDKIT_ASSIGN(File file, File::OpenWrite(staging.path()));
  Target target{file.fd(), request.output};
  NXDKIT_ASSIGN(const TransportReport report, PackTo(request, listing, target));
  if (request.sync) NXDKIT_TRY(file.Sync());
  NXDKIT_TRY(file.Close());
  NXDKIT_TRY(staging.Publish());
  return report;
}

}  // namespace nxdkit::tar
