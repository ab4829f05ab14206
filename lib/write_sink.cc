#include "lib/write_sink.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <sstream>
#include <thread>

#include "lib/crc32.h"

namespace nxdkit {
namespace {

constexpr char kJournalName[] = ".nxdkit-journal";
constexpr uint64_t kMaxJournalBytes = 1 << 30;

// A journal speaks of what was handed to the kernel, not of what is on the disk: it is void after
// the machine was restarted.
std::string BootId() {
  Result<std::string> id = ReadSmallFile("/proc/sys/kernel/random/boot_id", 4096);
  return id.ok() ? *id : std::string("unknown\n");
}

std::string JournalHead(const std::string& fingerprint) {
  return "nxdkit-journal 1 " + fingerprint + " " + BootId();
}

Status MakeFolders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return SystemError("create the folder", error.value()).in(path);
  return OkStatus();
}

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

std::string WriteSink::FilePath(size_t file) const {
  return files_[file].path.empty() ? folder_ : JoinPath(folder_, files_[file].path);
}

Result<std::unique_ptr<WriteSink>> WriteSink::Begin(const std::string& folder, const Layout& layout,
                                                    std::vector<OutputFile> files,
                                                    const Options& options) {
  std::unique_ptr<WriteSink> sink(new WriteSink());
  sink->folder_ = folder;
  sink->options_ = options;
  sink->files_ = std::move(files);
  sink->members_.resize(sink->files_.size());
  sink->crcs_.resize(layout.tensors.size());
  for (uint32_t t = 0; t < layout.tensors.size(); ++t) {
    std::vector<uint32_t>& members = sink->members_[layout.tensors[t].file];
    sink->places_.push_back({layout.tensors[t].file, static_cast<uint32_t>(members.size())});
    members.push_back(t);
  }
  for (size_t f = 0; f < sink->files_.size(); ++f)
    NXDKIT_CHECK(sink->files_[f].encoder->tensors().size() == sink->members_[f].size());
  bool same_run = false;
  if (!options.fingerprint.empty()) NXDKIT_TRY(sink->OpenJournal(same_run));
  NXDKIT_TRY(sink->CreateFiles(same_run));
  return sink;
}

Status WriteSink::OpenJournal(bool& same_run) {
  const std::string path = JoinPath(folder_, kJournalName);
  const std::string head = JournalHead(options_.fingerprint);
  if (Result<std::string> old = ReadSmallFile(path, kMaxJournalBytes); old.ok()) {
    same_run = old->starts_with(head);
    if (same_run) {
      LoadJournal(old->substr(head.size()));
      // A line cut off by the kill is void.
      journal_bytes_ = old->rfind('\n') + 1;
    }
  }
  NXDKIT_ASSIGN(journal_, File::OpenWrite(path));
  if (same_run) return OkStatus();
  if (::ftruncate(journal_.fd(), 0) != 0) return SystemError("truncate", errno).in(path);
  return Journal(head);
}

// Lines: "t <task>" and "c <tensor> <offset> <bytes> <crc>".
void WriteSink::LoadJournal(const std::string& text) {
  std::istringstream lines(text.substr(0, text.rfind('\n') + 1));
  std::string kind;
  while (lines >> kind) {
    uint64_t a = 0, b = 0, c = 0, d = 0;
    if (kind == "t" && lines >> a) {
      done_.insert(a);
    } else if (kind == "c" && lines >> a >> b >> c >> d && a < crcs_.size()) {
      crcs_[a][b] = {c, static_cast<uint32_t>(d)};
    } else {
      return;
    }
  }
}

Status WriteSink::Journal(const std::string& line) {
  const uint64_t at = journal_bytes_;
  journal_bytes_ += line.size();
  return journal_.WriteAt(at, Bytes(line));
}

Status WriteSink::CreateFiles(bool keep) {
  std::set<std::string> folders;
  for (size_t f = 0; f < files_.size(); ++f) {
    const std::string path = FilePath(f);
    if (folders.insert(ParentPath(path)).second) NXDKIT_TRY(MakeFolders(ParentPath(path)));
    struct stat info;
    const bool there = ::stat(path.c_str(), &info) == 0;
    if (keep && there && static_cast<uint64_t>(info.st_size) == files_[f].encoder->file_bytes()) continue;
    if (keep && !done_.empty()) {
      // A file of the earlier run is gone or not as it was: nothing of it can be trusted.
      done_.clear();
      for (auto& crcs : crcs_) crcs.clear();
    }
    NXDKIT_ASSIGN(File file, File::OpenWrite(path));
    NXDKIT_TRY(file.Allocate(files_[f].encoder->file_bytes()));
    NXDKIT_TRY(file.Close());
  }
  return OkStatus();
}

Status WriteSink::Take(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) {
  const Place place = places_[tensor];
  const FileEncoder& encoder = *files_[place.file].encoder;
  NXDKIT_ASSIGN(const std::shared_ptr<const File> file, cache_.Get(FilePath(place.file)));
  NXDKIT_TRY(file->WriteAt(encoder.data_offset(place.index) + offset, bytes));
  if (!encoder.needs_crc()) return OkStatus();
  const uint32_t crc = Crc32(0, bytes);
  const std::lock_guard lock(mutex_);
  crcs_[tensor][offset] = {bytes.size(), crc};
  if (!journal_.is_open()) return OkStatus();
  return Journal(fmt::format("c {} {} {} {}\n", tensor, offset, bytes.size(), crc));
}

Status WriteSink::TaskDone(uint64_t task) {
  if (!journal_.is_open()) return OkStatus();
  const std::lock_guard lock(mutex_);
  return Journal(fmt::format("t {}\n", task));
}

Result<std::vector<uint32_t>> WriteSink::TensorCrcs(size_t file) const {
  std::vector<uint32_t> out;
  for (uint32_t tensor : members_[file]) {
    uint32_t crc = 0;
    uint64_t at = 0;
    for (const auto& [offset, chunk] : crcs_[tensor]) {
      if (offset != at) break;
      crc = at == 0 ? chunk.crc : Crc32Combine(crc, chunk.crc, chunk.bytes);
      at += chunk.bytes;
    }
    const OutputTensor& output = files_[file].encoder->tensors()[out.size()];
    const uint64_t bytes = *PackedBytes(output.dtype, output.shape);
    if (at != bytes)
      return Error(Errc::kInternal, fmt::format("{} of {} bytes have a checksum", at, bytes)).on(output.name);
    out.push_back(crc);
  }
  return out;
}

Status WriteSink::FinishFile(size_t f) {
  const FileEncoder& encoder = *files_[f].encoder;
  std::vector<uint32_t> crcs;
  if (encoder.needs_crc()) {
    NXDKIT_ASSIGN(crcs, TensorCrcs(f));
  }
  NXDKIT_ASSIGN(File file, File::OpenWrite(FilePath(f)));
  for (const Fragment& fragment : encoder.Frame(crcs))
    NXDKIT_TRY(file.WriteAt(fragment.offset, Bytes(fragment.bytes)));
  if (options_.sync) NXDKIT_TRY(file.Sync());
  return file.Close();
}

Status WriteSink::Finish() {
  cache_.Clear();
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::optional<Error> error;
  const auto work = [&] {
    for (size_t f = next++; f < files_.size(); f = next++) {
      Status status = FinishFile(f);
      if (status.ok()) continue;
      const std::lock_guard lock(mutex);
      if (!error) error = std::move(status).error();
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 1; i < options_.jobs; ++i) threads.emplace_back(work);
  work();
  threads.clear();
  if (error) return *std::move(error);
  if (!journal_.is_open()) return OkStatus();
  NXDKIT_TRY(journal_.Close());
  const std::string path = JoinPath(folder_, kJournalName);
  if (::unlink(path.c_str()) != 0) return SystemError("remove the journal", errno).in(path);
  return OkStatus();
}

}  // namespace nxdkit
