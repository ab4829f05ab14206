#include "lib/sinks/write_sink.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <utility>

#include "lib/base/parallel.h"
#include "lib/hash/crc32.h"
#include "lib/sinks/match_sink.h"
#include "lib/system/folders.h"

namespace nxdkit {
namespace {

constexpr uint64_t kMaxJournalBytes = 1 << 30;

// A journal records the bytes handed to the kernel, not those on the disk: it is void after a
// restart of the machine, and where a restart cannot be ruled out.
std::string JournalHead(const std::string& fingerprint) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");  // files of /proc have no size to read by
  std::string boot_id;
  if (!std::getline(file, boot_id) || boot_id.empty()) return "";
  return "nxdkit-journal 2 " + fingerprint + " " + boot_id + "\n";
}

}  // namespace

Result<std::unique_ptr<WriteSink>> WriteSink::Begin(const std::string& folder, const Layout& layout,
                                                    std::vector<OutputFile> files,
                                                    const Options& options) {
  std::unique_ptr<WriteSink> sink(new WriteSink());
  sink->folder_ = folder;
  sink->options_ = options;
  sink->files_ = OutputFiles(folder, layout, std::move(files));
  if (!options.fingerprint.empty()) NXDKIT_TRY(sink->TakeOver());
  NXDKIT_TRY(sink->CreateFiles());
  return sink;
}

// Files that are missing or have another size are not the earlier run's: nothing of it can be
// trusted.
Result<bool> WriteSink::FilesAreThere() const {
  for (size_t f = 0; f < files_.size(); ++f) {
    const Status there = MatchFileSize(files_.Path(f), files_.encoder(f).file_bytes());
    if (!there.ok() && there.error().code() != Errc::kFindings) return there.error();
    if (!there.ok()) return false;
  }
  return true;
}

// Continues from the files of an earlier run of the same plan, else makes room for this one.
Status WriteSink::TakeOver() {
  const std::string path = JoinPath(folder_, kJournalName);
  const std::string head = JournalHead(options_.fingerprint);
  const Result<std::string> old = ReadSmallFile(path, kMaxJournalBytes);
  if (!old.ok() && old.error().code() == Errc::kIo) return old.error();
  const bool of_this_plan = !head.empty() && old.ok() && old->starts_with(head);
  NXDKIT_ASSIGN(const bool same_run, of_this_plan ? FilesAreThere() : Result<bool>(false));
  if (!same_run) NXDKIT_TRY(RemoveContents(folder_));
  NXDKIT_ASSIGN(journal_, File::OpenWrite(path));
  if (!same_run)
    return journal_.WriteAt(std::exchange(journal_bytes_, head.size()),
                            std::as_bytes(std::span(head)));
  journal_bytes_ = head.size();
  LoadJournal(old->substr(head.size()));
  if (::ftruncate(journal_.fd(), static_cast<off_t>(journal_bytes_)) != 0)
    return SystemError("truncate", errno).in(path);
  return OkStatus();
}

// Lines "t <task>" and "c <tensor> <offset> <bytes> <crc>", each followed by the checksum of all
// lines up to it. The first line that does not fit, cut off by a kill or damaged, ends the journal.
void WriteSink::LoadJournal(const std::string& lines) {
  constexpr size_t kSumBytes = 9;  // blank and 8 digits
  size_t begin = 0;
  for (size_t end = lines.find('\n'); end != std::string::npos; end = lines.find('\n', begin)) {
    if (end - begin < kSumBytes) return;
    const std::string line = lines.substr(begin, end - begin - kSumBytes);
    const uint32_t crc = Crc32(journal_crc_, std::as_bytes(std::span(line)));
    if (lines.substr(begin + line.size(), kSumBytes) != fmt::format(" {:08x}", crc)) return;
    journal_crc_ = crc;
    journal_bytes_ += end + 1 - begin;
    begin = end + 1;
    std::istringstream words(line);
    std::string kind;
    uint64_t a = 0, b = 0, c = 0, d = 0;
    words >> kind >> a >> b >> c >> d;
    if (kind == "t") done_.insert(a);
    if (kind == "c" && a < files_.tensor_count())
      files_.AddCrc(static_cast<uint32_t>(a), b, c, static_cast<uint32_t>(d));
  }
}

Status WriteSink::Journal(const std::string& line) {
  journal_crc_ = Crc32(journal_crc_, std::as_bytes(std::span(line)));
  const std::string text = fmt::format("{} {:08x}\n", line, journal_crc_);
  return journal_.WriteAt(std::exchange(journal_bytes_, journal_bytes_ + text.size()),
                          std::as_bytes(std::span(text)));
}

Status WriteSink::CreateFiles() {
  std::set<std::string> folders;
  for (size_t f = 0; f < files_.size(); ++f) {
    const std::string path = files_.Path(f);
    if (folders.insert(ParentPath(path)).second) NXDKIT_TRY(MakeFolders(ParentPath(path)));
    if (!done_.empty()) continue;  // all of them exist
    NXDKIT_ASSIGN(const std::shared_ptr<const File> file, cache_.Get(path));
    NXDKIT_TRY(file->Allocate(files_.encoder(f).file_bytes()));
  }
  return OkStatus();
}

Status WriteSink::Take(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) {
  const uint32_t place = files_.FileOf(tensor);
  NXDKIT_ASSIGN(const std::shared_ptr<const File> file, cache_.Get(files_.Path(place)));
  NXDKIT_TRY(file->WriteAt(files_.DataOffset(tensor) + offset, bytes));
  if (!files_.encoder(place).needs_crc()) return OkStatus();
  const uint32_t crc = Crc32(0, bytes);
  const std::lock_guard lock(mutex_);
  files_.AddCrc(tensor, offset, bytes.size(), crc);
  if (!journal_.is_open()) return OkStatus();
  return Journal(fmt::format("c {} {} {} {}", tensor, offset, bytes.size(), crc));
}

Status WriteSink::TaskDone(uint64_t task) {
  if (!journal_.is_open()) return OkStatus();
  const std::lock_guard lock(mutex_);
  return Journal(fmt::format("t {}", task));
}

Status WriteSink::FinishFile(size_t f) {
  NXDKIT_ASSIGN(const std::vector<uint32_t> crcs, files_.Crcs(f));
  NXDKIT_ASSIGN(const std::shared_ptr<const File> file, cache_.Get(files_.Path(f)));
  NXDKIT_TRY(files_.encoder(f).ForEachFragment(
      crcs, [&](uint64_t offset, std::span<const std::byte> bytes) {
        return file->WriteAt(offset, bytes);
      }));
  if (options_.sync) file->StartSync();
  return OkStatus();
}

Status WriteSink::SyncFile(size_t f) {
  NXDKIT_ASSIGN(const std::shared_ptr<const File> file, cache_.Get(files_.Path(f)));
  return file->Sync();
}

Status WriteSink::Finish() {
  NXDKIT_TRY(ParallelFor(files_.size(), options_.jobs, [this](size_t f) { return FinishFile(f); }));
  // Synced only now, when all are being written: file by file, each sync would wait for a write and
  // a commit of its own, which is slow for the thousands of files of an xser set.
  if (options_.sync)
    NXDKIT_TRY(ParallelFor(files_.size(), options_.jobs, [this](size_t f) { return SyncFile(f); }));
  NXDKIT_TRY(cache_.Close());
  if (!journal_.is_open()) return OkStatus();
  NXDKIT_TRY(journal_.Close());
  const std::string path = JoinPath(folder_, kJournalName);
  if (::unlink(path.c_str()) != 0) return SystemError("remove the journal", errno).in(path);
  return OkStatus();
}

}  // namespace nxdkit
