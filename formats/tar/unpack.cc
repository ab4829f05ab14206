#include "formats/tar/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <set>
#include <vector>

#include "formats/rollout/bundle.h"
#include "formats/rollout/weight_slots.h"
#include "formats/tar/stream_sum.h"
#include "lib/base/checked.h"
#include "lib/base/errors.h"
#include "lib/compress/decompressor.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/staging.h"
#include "lib/system/utf8_locale.h"

namespace nxdkit::tar {
namespace {

constexpr size_t kReadBytes = 1 << 20;
constexpr la_int64_t kBlockBytes = 512;
constexpr uint64_t kMaxEntries = 1'000'000;

uint64_t AddOrMost(uint64_t a, uint64_t b) {
  return CheckedAdd(a, b).value_or(std::numeric_limits<uint64_t>::max());
}

using Reader = std::unique_ptr<archive, int (*)(archive*)>;

// The archive's bytes, read once in order.
class Input {
 public:
  Input(const UnpackRequest& request, const File& file)
      : request_(request),
        file_(file),
        decompressor_([this](std::span<std::byte> to) { return Read(to); }) {}

  // The next bytes of the decompressed archive; empty at its end.
  Result<std::span<const std::byte>> Next() {
    if (request_.hooks.poll) NXDKIT_TRY(request_.hooks.poll());
    NXDKIT_ASSIGN(const auto bytes, decompressor_.Next().in(request_.archive));
    check_.Add(bytes);
    // The limit leaves room for the headers and padding of the maximum number of entries.
    NXDKIT_TRY(
        CheckSize(decompressor_.bytes_made() - std::min(decompressor_.bytes_made(), kAlwaysBytes)));
    return bytes;
  }

  // kLimit when this many output bytes are too many for the bytes read.
  Status CheckSize(uint64_t bytes) const {
    const uint64_t limit = request_.max_bytes.value_or(
        std::max(kAlwaysBytes, kMaxRatio * std::max(file_.bytes(), decompressor_.bytes_taken())));
    if (bytes <= limit) return OkStatus();
    return OverLimit("the contents of the archive have at least {} bytes, over the limit of {}",
                     bytes, limit)
        .in(request_.archive)
        .hint("--max-unpacked allows more");
  }

  // Reads what follows the end of the archive, which is at `end`, and checks all checksums. Returns
  // whether there is one over every byte.
  Result<bool> Finish(uint64_t end) {
    for (;;) {
      NXDKIT_ASSIGN(const auto bytes, Next());
      if (bytes.empty()) break;
    }
    NXDKIT_ASSIGN(const bool has_record, check_.Finish(end).in(request_.archive));
    return has_record || decompressor_.has_checksums();
  }

  uint64_t bytes_taken() const { return decompressor_.bytes_taken(); }

 private:
  Result<size_t> Read(std::span<std::byte> to) {
    if (request_.archive != kStream) {
      const std::span<std::byte> part =
          to.first(std::min<uint64_t>(to.size(), file_.bytes() - at_));
      NXDKIT_TRY(file_.ReadAt(at_, part));
      at_ += part.size();
      return part.size();
    }
    ssize_t got;
    do {
      got = ::read(STDIN_FILENO, to.data(), to.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) return SystemError("read the archive", errno).in("standard input");
    return static_cast<size_t>(got);
  }

  const UnpackRequest& request_;
  const File& file_;
  uint64_t at_ = 0;
  Decompressor decompressor_;
  StreamCheck check_;
};

// The state of libarchive's reader of an input; must not move.
struct ReadState {
  Input& input;
  Status status;
};

la_ssize_t ReadInput(archive* reader, void* context, const void** bytes) {
  ReadState& state = *static_cast<ReadState*>(context);
  const Result<std::span<const std::byte>> next = state.input.Next();
  if (next.ok()) {
    *bytes = next->data();
    return static_cast<la_ssize_t>(next->size());
  }
  state.status = next.error();
  archive_set_error(reader, EIO, "read error");
  return ARCHIVE_FATAL;
}

// The error that stopped libarchive: the input's, or its own.
Error ReadError(archive* reader, const ReadState& state, const std::string& path) {
  if (!state.status.ok()) return state.status.error();
  const char* text = archive_error_string(reader);
  if (archive_errno(reader) == ENOMEM) return OverLimit("the system gave no memory").in(path);
  return Corrupt("the archive cannot be read: {}", text ? text : "no reason")
      .in(path)
      .at(state.input.bytes_taken());
}

Result<Reader> OpenReader(ReadState& state, const std::string& path) {
  Reader reader(archive_read_new(), archive_read_free);
  if (!reader) return OverLimit("the system gave no memory");
  archive_read_support_format_tar(reader.get());
  if (archive_read_open(reader.get(), &state, nullptr, ReadInput, nullptr) != ARCHIVE_OK)
    return ReadError(reader.get(), state, path);
  return reader;
}

struct Unpacker {
  const UnpackRequest& request;
  ReadState& state;
  archive* reader;
  const std::string folder;
  std::vector<std::byte> buffer = std::vector<std::byte>(kReadBytes);
  uint64_t entries = 0;
  std::set<std::string> names = {};
  std::set<std::string> folders = {};
  std::vector<std::string> written = {};
  TransportReport report = {};

  Result<TransportReport> Run() {
    while (true) {
      archive_entry* entry = nullptr;
      const la_int64_t before = archive_filter_bytes(reader, 0);
      const int status = archive_read_next_header(reader, &entry);
      if (status == ARCHIVE_EOF) {
        NXDKIT_TRY(CheckEnd(archive_filter_bytes(reader, 0) - before));
        break;
      }
      if (status != ARCHIVE_OK && status != ARCHIVE_WARN)
        return ReadError(reader, state, request.archive);
      if (++entries > kMaxEntries)
        return Corrupt("over {} entries", kMaxEntries).in(request.archive);
      NXDKIT_TRY(Add(entry).in(request.archive));
    }
    if (report.files == 0) return Corrupt("the archive holds no file").in(request.archive);
    NXDKIT_ASSIGN(report.has_checksum,
                  state.input.Finish(static_cast<uint64_t>(archive_filter_bytes(reader, 0))));
    report.archive_bytes = state.input.bytes_taken();
    return report;
  }

  // For a report with single_file.
  const std::string& OnlyFile() const { return written.front(); }

  // Separate from writing, so that the disk works on all files at once.
  Status Sync() const {
    for (const std::string& name : written) {
      NXDKIT_ASSIGN(File file, File::OpenWrite(JoinPath(folder, name)));
      NXDKIT_TRY(file.Sync());
      NXDKIT_TRY(file.Close());
    }
    return OkStatus();
  }

  // libarchive accepts the end of the file as the end of the archive. An archive that was truncated
  // between two files lacks the block of zeros; padding alone is less than a block.
  Status CheckEnd(la_int64_t bytes) const {
    if (bytes >= kBlockBytes) return OkStatus();
    return Corrupt("the archive is cut off: the zeros at its end are missing").in(request.archive);
  }

  Status Add(archive_entry* entry) {
    const char* given = archive_entry_pathname_utf8(entry);
    if (given == nullptr) return Corrupt("an entry whose name is not UTF-8");
    NXDKIT_ASSIGN(const std::string name, SafeName(given, request.strip));
    NXDKIT_TRY(CheckKind(entry, given));
    NXDKIT_ASSIGN(const std::string whole_name, SafeName(given, 0));
    report.single_file = entries == 1 && archive_entry_filetype(entry) == AE_IFREG &&
                         whole_name.find('/') == std::string::npos;
    if (name.empty()) return OkStatus();
    if (archive_entry_filetype(entry) == AE_IFDIR) return MakeFolders(name);
    if (!names.insert(name).second) return Corrupt("the name is there twice").member(given);
    NXDKIT_TRY(MakeFolders(ParentPath(name)));
    NXDKIT_TRY(WriteFile(entry, name).member(given));
    return OkStatus();
  }

  static Status CheckKind(archive_entry* entry, const char* name) {
    const char* link = archive_entry_hardlink(entry);
    if (link == nullptr && archive_entry_filetype(entry) == AE_IFLNK)
      link = archive_entry_symlink(entry);
    if (link != nullptr) return Corrupt("a link to {}: links are refused", link).member(name);
    const auto type = archive_entry_filetype(entry);
    if (type == AE_IFREG || type == AE_IFDIR) return OkStatus();
    return Corrupt("neither a file nor a folder").member(name);
  }

  Status MakeFolders(const std::string& name) {
    if (name == "." || folders.contains(name)) return OkStatus();
    if (names.contains(name)) return Corrupt("a folder where a file of that name is").member(name);
    NXDKIT_TRY(MakeFolders(ParentPath(name)));
    const std::string path = JoinPath(folder, name);
    if (::mkdir(path.c_str(), 0777) != 0) return OutputError("create the folder", errno).in(path);
    folders.insert(name);
    return OkStatus();
  }

  Status WriteFile(archive_entry* entry, const std::string& name) {
    if (folders.contains(name)) return Corrupt("a file where a folder of that name is");
    if (!archive_entry_size_is_set(entry)) return Corrupt("an entry without a size");
    const la_int64_t declared = archive_entry_size(entry);
    if (declared < 0) return Corrupt("a size of {} bytes", declared);
    const uint64_t bytes = static_cast<uint64_t>(declared);
    // The remaining size of a stream is unknown.
    if (request.archive != kStream || request.max_bytes)
      NXDKIT_TRY(state.input.CheckSize(AddOrMost(report.bytes, bytes)));
    NXDKIT_ASSIGN(File file, File::OpenWrite(JoinPath(folder, name)));
    if (bytes > 0) NXDKIT_TRY(file.Allocate(bytes));
    NXDKIT_TRY(CopyData(file, bytes));
    if (request.sync) file.StartSync();
    written.push_back(name);
    ++report.files;
    report.bytes += bytes;
    return file.Close();
  }

  Status CopyData(const File& file, uint64_t bytes) {
    uint64_t at = 0;
    while (true) {
      if (request.hooks.poll) NXDKIT_TRY(request.hooks.poll());
      const la_ssize_t got = archive_read_data(reader, buffer.data(), buffer.size());
      if (got < 0) return ReadError(reader, state, request.archive);
      if (got == 0) break;
      const std::span<const std::byte> part = std::span(buffer).first(static_cast<size_t>(got));
      // Holes, which are not stored, are written as zeros.
      NXDKIT_TRY(state.input.CheckSize(AddOrMost(report.bytes, at + part.size())));
      if (part.size() > bytes - at) return Corrupt("more than the {} bytes it declares", bytes);
      NXDKIT_TRY(file.WriteAt(at, part));
      at += part.size();
      if (request.hooks.on_bytes) request.hooks.on_bytes(part.size());
    }
    if (at == bytes) return OkStatus();
    return Corrupt("{} bytes found, {} expected", at, bytes);
  }
};

// An unpacked bundle is like one that we make: its weights are a link to their slot, so that the
// first refresh has nothing to rename.
Status MakeSlotOfABundle(const std::string& folder) {
  NXDKIT_ASSIGN(const bool is_bundle, rollout::LooksLikeBundle(folder));
  if (!is_bundle) return OkStatus();
  for (const char* name : {"weights", "checkpoint/weights"}) {
    const std::string weights = JoinPath(folder, name);
    NXDKIT_ASSIGN(const bool there, IsFolder(weights));
    if (there) NXDKIT_TRY(rollout::MakeFirstSlot(weights));
  }
  return OkStatus();
}

}  // namespace

Result<TransportReport> Unpack(const UnpackRequest& request) {
  const Utf8Locale utf8;
  File file;
  if (request.archive != kStream) NXDKIT_TRY(File::OpenRead(request.archive).To(file));
  NXDKIT_ASSIGN(Staging staging,
                Staging::Begin(request.output, {.replace = request.force, .sync = request.sync}));
  Input input(request, file);
  ReadState state{input, {}};
  NXDKIT_ASSIGN(const Reader reader, OpenReader(state, request.archive));
  if (request.hooks.begin) request.hooks.begin("unpacking", 0);
  Unpacker unpacker{request, state, reader.get(), staging.path()};
  NXDKIT_ASSIGN(const TransportReport report, unpacker.Run());
  if (request.sync) NXDKIT_TRY(unpacker.Sync());
  NXDKIT_ASSIGN(const bool onto_folder, IsFolder(request.output));
  if (report.single_file && onto_folder)
    return BadUsage(
               "the archive is of a single file and the output is a folder, expected the name of a "
               "file")
        .in(request.output);
  if (!report.single_file) NXDKIT_TRY(MakeSlotOfABundle(staging.path()));
  NXDKIT_TRY(report.single_file ? staging.PublishOnly(unpacker.OnlyFile()) : staging.Publish());
  return report;
}

}  // namespace nxdkit::tar
