#include "formats/neff/payload.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <set>

#include "lib/base/errors.h"
#include "lib/compress/decompressor.h"
#include "lib/system/utf8_locale.h"

namespace nxdkit::neff {
namespace {

using Reader = std::unique_ptr<archive, int (*)(archive*)>;

// The payload, decompressed, as libarchive reads it.
struct Source {
  Decompressor bytes;
  std::optional<Error> error;
};

la_ssize_t ReadBlock(archive* reader, void* client, const void** buffer) {
  auto& source = *static_cast<Source*>(client);
  const Result<std::span<const std::byte>> next = source.bytes.Next();
  if (next.ok()) {
    *buffer = next->data();
    return static_cast<la_ssize_t>(next->size());
  }
  source.error = next.error();
  archive_set_error(reader, EIO, "read error");
  return ARCHIVE_FATAL;
}

// The bytes of the payload, in order.
Decompressor::Source PartOf(const File& file, const Located& neff) {
  return [&file, at = neff.data_offset(),
          end = neff.data_offset() + neff.header.data_bytes](std::span<std::byte> to) mutable {
    const auto part = to.first(std::min<uint64_t>(to.size(), end - at));
    const Status read = file.ReadAt(at, part);
    at += part.size();
    return read.ok() ? Result<size_t>(part.size()) : Result<size_t>(read.error());
  };
}

class Lister {
 public:
  Lister(const File& file, const Located& neff, const ListLimits& limits)
      : limits_(limits),
        source_{Decompressor(PartOf(file, neff)), {}},
        reader_(archive_read_new(), archive_read_free) {}

  Result<Listing> Run() {
    if (!reader_) return OverLimit("the system gave no memory");
    archive_read_support_format_tar(reader_.get());
    if (archive_read_open(reader_.get(), &source_, nullptr, ReadBlock, nullptr) != ARCHIVE_OK)
      return Damaged();
    while (listing_.cut_short.empty()) {
      if (limits_.poll) NXDKIT_TRY(limits_.poll());
      archive_entry* entry = nullptr;
      const int status = archive_read_next_header(reader_.get(), &entry);
      if (status == ARCHIVE_EOF) return ReadEnd();
      if (status != ARCHIVE_OK && status != ARCHIVE_WARN) return Damaged();
      Add(entry);
      if (!listing_.cut_short.empty()) break;
      // Read here, in pieces that are counted: libarchive alone would skip terabytes of compressed
      // zeros in one call.
      NXDKIT_ASSIGN(const bool whole, PassOver());
      if (!whole) return Damaged();
    }
    return std::move(listing_);
  }

 private:
  void Add(archive_entry* entry) {
    const char* name = archive_entry_pathname(entry);
    const std::string text = name == nullptr ? "" : name;
    if (text.size() > limits_.name_bytes)
      listing_.cut_short = fmt::format("a name of {} bytes is over the limit of {}", text.size(),
                                       limits_.name_bytes);
    else if (listing_.members.size() == limits_.members)
      listing_.cut_short = fmt::format("more than {} members", limits_.members);
    else
      listing_.members.push_back(
          {text, static_cast<uint64_t>(std::max<la_int64_t>(0, archive_entry_size(entry)))});
  }

  // Reads what follows the archive's end, where gzip has its checksum.
  Result<Listing> ReadEnd() {
    for (bool more = true; more;) {
      if (limits_.poll) NXDKIT_TRY(limits_.poll());
      const Result<std::span<const std::byte>> next = source_.bytes.Next();
      if (!next.ok()) source_.error = next.error();
      if (!next.ok()) return Damaged();
      if (IsOverLimit()) break;
      more = !next->empty();
    }
    return std::move(listing_);
  }

  bool IsOverLimit() {
    const uint64_t done = source_.bytes.bytes_made();
    if (done > limits_.bytes)
      listing_.cut_short = fmt::format("more than {} bytes after decompression", limits_.bytes);
    return done > limits_.bytes;
  }

  // Skips the contents of the current member; false for damage.
  Result<bool> PassOver() {
    const void* data = nullptr;
    size_t bytes = 0;
    la_int64_t offset = 0;
    for (;;) {
      if (limits_.poll) NXDKIT_TRY(limits_.poll());
      const int status = archive_read_data_block(reader_.get(), &data, &bytes, &offset);
      if (status == ARCHIVE_EOF) return true;
      if (status != ARCHIVE_OK && status != ARCHIVE_WARN) return false;
      if (IsOverLimit()) return true;
    }
  }

  Result<Listing> Damaged() {
    const char* text = archive_error_string(reader_.get());
    if (source_.error && source_.error->code() != Errc::kCorrupt) return *source_.error;
    if (source_.error) text = source_.error->message().c_str();
    listing_.cut_short = fmt::format("the archive is damaged: {}", text ? text : "no reason");
    return std::move(listing_);
  }

  const ListLimits& limits_;
  Source source_;
  Reader reader_;
  Listing listing_;
};

}  // namespace

Result<Listing> ListPayload(const File& file, const Located& neff, const ListLimits& limits) {
  const Utf8Locale locale;
  return Lister(file, neff, limits).Run();
}

size_t CountGraphs(const Listing& listing) {
  std::set<std::string> graphs;
  for (const Member& member : listing.members) {
    std::string_view name = member.name;
    if (name.starts_with("./")) name.remove_prefix(2);
    const std::string_view folder = name.substr(0, name.find('/'));
    if (folder.size() < name.size() && folder.starts_with("sg") &&
        std::ranges::all_of(folder.substr(2), [](char c) { return c >= '0' && c <= '9'; }))
      graphs.emplace(folder);
  }
  return graphs.size();
}

}  // namespace nxdkit::neff
