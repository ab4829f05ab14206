#include "formats/ops/convert/parts.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <functional>
#include <numeric>
#include <thread>

#include "lib/base/errors.h"
#include "lib/sinks/match_sink.h"
#include "lib/system/folder_lock.h"
#include "lib/system/folders.h"
#include "lib/system/owner.h"
#include "lib/system/staging.h"

namespace nxdkit::ops {
namespace {

constexpr uint64_t kMaxPlanBytes = 4096;

Status MoveFile(const std::string& from, const std::string& to) {
  NXDKIT_TRY(MakeFolders(ParentPath(to)));
  if (::rename(from.c_str(), to.c_str()) != 0) return OutputError("rename", errno).in(to);
  return OkStatus();
}

std::string PlanPath(const std::string& folder) { return JoinPath(folder, "plan"); }

// The folder is not there yet, or it is that of this plan and split.
Status CheckFolder(const std::string& folder, const std::string& plan) {
  const std::string path = PlanPath(folder);
  NXDKIT_ASSIGN(const bool planned, IsThere(path));
  if (!planned) return OkStatus();
  NXDKIT_ASSIGN(const std::string there, ReadSmallFile(path, kMaxPlanBytes));
  if (there == plan) return OkStatus();
  return BadUsage("the folder holds the parts of another conversion or another split")
      .in(folder)
      .hint("use the same options and the same N for every part, or remove the folder");
}

// Names the plan and the split in the folder.
Status ClaimFolder(const std::string& folder, const std::string& plan) {
  NXDKIT_TRY(CheckFolder(folder, plan));
  NXDKIT_TRY(MakeFolders(JoinPath(folder, "files")));
  NXDKIT_ASSIGN(const bool planned, IsThere(PlanPath(folder)));
  if (!planned) return WriteFileAtomic(PlanPath(folder), plan);
  return CheckFolder(folder, plan);
}

// The plan's files without those of other parts.
void KeepFiles(const std::vector<bool>& keep, OutputPlan& output, Plan& plan) {
  std::vector<uint32_t> place(output.layout.files.size());
  OutputPlan kept;
  Plan kept_plan;
  for (size_t f = 0; f < output.files.size(); ++f) {
    if (!keep[f]) continue;
    if (f < output.layout.files.size()) {
      place[f] = static_cast<uint32_t>(kept.layout.files.size());
      kept.layout.files.push_back(output.layout.files[f]);
    }
    kept.files.push_back(std::move(output.files[f]));
  }
  for (size_t t = 0; t < output.layout.tensors.size(); ++t) {
    TensorLayout& tensor = output.layout.tensors[t];
    if (!keep[tensor.file]) continue;
    tensor.file = place[tensor.file];
    kept.layout.tensors.push_back(std::move(tensor));
    kept.outputs.push_back(std::move(output.outputs[t]));
    kept_plan.tensors.push_back(std::move(plan.tensors[t]));
  }
  output.layout = std::move(kept.layout);
  output.outputs = std::move(kept.outputs);
  output.files = std::move(kept.files);
  plan = std::move(kept_plan);
}

// A second name for the file, so that a kill while publishing costs no finished work. Where the
// file system has no hard links, the file is moved.
Status LinkFile(const std::string& from, const std::string& to) {
  NXDKIT_TRY(MakeFolders(ParentPath(to)));
  if (::link(from.c_str(), to.c_str()) == 0) return OkStatus();
  return MoveFile(from, to);
}

// --- one living process for each number

// Seconds. A process of another machine that has written nothing for so long is taken for dead.
constexpr int64_t kIsDead = 60;
constexpr uint64_t kMaxOwnerBytes = 4096;

// When an attempt at the part last wrote something, by the clock of the file system.
int64_t LastWrite(const std::string& folder, int part, const std::string& own_attempt) {
  const auto names = ListFolder(folder);
  const std::string prefix = fmt::format("part-{}-", part);
  int64_t last = 0;
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    const std::string attempt = JoinPath(folder, name);
    if (!name.starts_with(prefix) || attempt == own_attempt) continue;
    const Result<std::vector<TreeEntry>> entries = ListTree(attempt);
    for (const TreeEntry& entry : entries.ok() ? *entries : std::vector<TreeEntry>())
      last = std::max(last, ChangedAt(JoinPath(attempt, entry.path)));
    last = std::max(last, ChangedAt(attempt));
  }
  return last;
}

// The file that names who makes a part. It goes with the object; a killed process leaves it.
class PartOwner {
 public:
  PartOwner() = default;
  PartOwner(const PartOwner&) = delete;
  PartOwner& operator=(const PartOwner&) = delete;
  ~PartOwner() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  // kIo when another living process has the same number: two that were started as one part wait for
  // the others' for ever. Of one that cannot be asked a minute's silence is waited for. `attempt`:
  // the folder that was just made for it.
  Status Take(const std::string& folder, int part, const std::string& attempt,
              const RunOptions& run) {
    const std::string path = JoinPath(folder, fmt::format("owner-{}", part));
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) {
      ::close(fd);
    } else if (errno != EEXIST) {
      return OutputError("create", errno).in(path);
    } else {
      const auto last_sign = [&] {
        return std::max(LastWrite(folder, part, attempt), ChangedAt(path));
      };
      NXDKIT_TRY(AwaitDead(path, last_sign, attempt, run));
    }
    NXDKIT_TRY(WriteFileAtomic(path, ThisProcess().ToText()));
    path_ = path;
    return OkStatus();
  }

 private:
  // Who was killed on another machine, or in a container that is started again, is only silent.
  static Status AwaitDead(const std::string& path, const std::function<int64_t()>& last_sign,
                          const std::string& attempt, const RunOptions& run) {
    const int64_t first = last_sign();
    while (true) {
      ::utimensat(AT_FDCWD, attempt.c_str(), nullptr, 0);
      const Result<std::string> text = ReadSmallFile(path, kMaxOwnerBytes);
      const std::optional<Owner> owner = text.ok() ? ParseOwner(*text) : std::nullopt;
      const Alive alive = owner ? AskAlive(*owner) : Alive::kUnknown;
      const int64_t last = last_sign();
      if (!MayLive(alive, last, ChangedAt(attempt), kIsDead)) return OkStatus();
      if (alive == Alive::kYes || last > first) return Lives(path, owner);
      if (run.poll) NXDKIT_TRY(run.poll());
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  }

  static Error Lives(const std::string& path, const std::optional<Owner>& owner) {
    const std::string who =
        owner ? fmt::format("pid {} on {}", owner->pid, owner->host) : "it does not say which";
    return Error(Errc::kIo, fmt::format("another process makes this part too ({})", who))
        .in(path)
        .hint("give every process its own --part I/N");
  }

  std::string path_;
};

class OnePart : public Destination {
 public:
  OnePart(const ConvertRequest& request, Conversion& conversion, const std::string& fingerprint)
      : Destination(request, conversion),
        part_(std::get<Part>(request.place)),
        folder_(request.output + ".parts"),
        plan_(fmt::format("nxdkit-parts 1 {} {}\n", fingerprint, part_.count)) {
    std::vector<uint64_t> bytes;
    for (const PlannedFile& file : conversion.files) bytes.push_back(file.bytes);
    owners_ = AssignParts(bytes, part_.count);
    std::vector<bool> keep;
    for (int owner : owners_) keep.push_back(owner == part_.index);
    KeepFiles(keep, conversion.output, conversion.plan);
    for (const OutputFile& file : conversion.output.files) own_.push_back(file.path);
  }

  Status Check() override { return CheckFolder(folder_, plan_); }

  Result<Sink*> Begin(const Workload&, ConvertReport&) override {
    NXDKIT_TRY(ClaimFolder(folder_, plan_));
    NXDKIT_ASSIGN(const bool done, IsDone(part_.index));
    if (done) return nullptr;
    const std::string place =
        JoinPath(folder_, fmt::format("part-{}-{:016x}", part_.index, RandomNumber()));
    NXDKIT_ASSIGN(attempt_, Staging::Begin(place, {.sync = request_.sync}));
    NXDKIT_TRY(owner_.Take(folder_, part_.index, attempt_.path(), request_.run));
    NXDKIT_ASSIGN(sink_, WriteInto(attempt_.path()));
    return sink_.get();
  }

  // Whoever finds all parts done puts them together. Where two do, one has the lock, and the other
  // is through: either at once, or because the folder of the parts is gone when it looks again.
  Result<std::optional<MadePlace>> Finish(ConvertReport& report) override {
    if (sink_) NXDKIT_TRY(FinishOwn());
    NXDKIT_ASSIGN(report.part->missing, MissingParts());
    NXDKIT_TRY(WarnOfLostFiles(report));
    if (!report.part->missing.empty() || !part_.puts_together) return std::optional<MadePlace>();
    Result<FolderLock> lock = FolderLock::Try(folder_, FolderLock::Mode::kExclusive);
    if (!lock.ok() && lock.error().code() != Errc::kNotFound) return std::move(lock).error();
    if (!lock.ok() || lock->state() == FolderLock::State::kBusy) return std::optional<MadePlace>();
    NXDKIT_ASSIGN(const std::vector<int> missing, MissingParts());
    if (!missing.empty()) return std::optional<MadePlace>();
    lock_.emplace(*std::move(lock));
    NXDKIT_ASSIGN(whole_, Staging::Begin(request_.output,
                                         {.replace = request_.force, .sync = request_.sync}));
    for (const PlannedFile& file : conversion_.files)
      NXDKIT_TRY(LinkFile(Finished(file.path), JoinPath(whole_.path(), file.path)));
    NXDKIT_TRY(WriteSideFiles(conversion_.output, whole_.path(), request_.sync));
    return std::optional(MadePlace{whole_.path(), ""});
  }

  Status Publish(ConvertReport& report) override {
    NXDKIT_TRY(whole_.Publish());
    report.part->published = true;
    RemoveFolder();
    return OkStatus();
  }

  // A process that was killed after it published has left the folder of the parts.
  void Stands(ConvertReport& report, bool dry_run) override {
    report.already_published = report.part->published = true;
    const Result<std::string> plan = ReadSmallFile(PlanPath(folder_), kMaxPlanBytes);
    if (!dry_run && plan.ok() && *plan == plan_) RemoveFolder();
  }

 private:
  std::string Finished(const std::string& path) const {
    return JoinPath(JoinPath(folder_, "files"), path);
  }
  std::string DoneMark(int part) const { return JoinPath(folder_, fmt::format("done-{}", part)); }

  Result<bool> HasMark(int part) const {
    NXDKIT_ASSIGN(const bool there, IsThere(DoneMark(part)));
    if (!there) return false;
    NXDKIT_ASSIGN(const std::string mark, ReadSmallFile(DoneMark(part), kMaxPlanBytes));
    return mark == plan_;
  }

  // The first of the part's finished files that is not there as it was finished.
  Result<std::optional<std::string>> LostFile(int part) const {
    for (size_t f = 0; f < owners_.size(); ++f) {
      if (owners_[f] != part) continue;
      const std::string path = Finished(conversion_.files[f].path);
      const Status there = MatchFileSize(path, conversion_.files[f].bytes);
      if (!there.ok() && there.error().code() != Errc::kFindings) return there.error();
      if (!there.ok()) return std::optional(path);
    }
    return std::optional<std::string>();
  }

  Result<bool> IsDone(int part) const {
    NXDKIT_ASSIGN(const bool marked, HasMark(part));
    if (!marked) return false;
    NXDKIT_ASSIGN(const std::optional<std::string> lost, LostFile(part));
    return !lost;
  }

  Result<std::vector<int>> MissingParts() const {
    std::vector<int> missing;
    for (int part = 0; part < part_.count; ++part) {
      NXDKIT_ASSIGN(const bool done, IsDone(part));
      if (!done) missing.push_back(part);
    }
    return missing;
  }

  // A part that was through, and whose process therefore comes no more.
  Status WarnOfLostFiles(ConvertReport& report) const {
    for (const int part : report.part->missing) {
      NXDKIT_ASSIGN(const bool marked, HasMark(part));
      if (!marked) continue;
      NXDKIT_ASSIGN(const std::optional<std::string> lost, LostFile(part));
      report.warnings.push_back(
          fmt::format("part {} must be run again: its finished file {} is not there any more, or "
                      "has another size",
                      part, lost.value_or(folder_)));
    }
    return OkStatus();
  }

  // The output is whole; what is left over harms nobody.
  void RemoveFolder() const { (void)RemoveTree(folder_).ok(); }

  Status FinishOwn() {
    NXDKIT_TRY(sink_->Finish());
    for (const std::string& path : own_)
      NXDKIT_TRY(MoveFile(JoinPath(attempt_.path(), path), Finished(path)));
    NXDKIT_TRY(WriteFileAtomic(DoneMark(part_.index), plan_));
    attempt_ = Staging();
    return OkStatus();
  }

  const Part part_;
  const std::string folder_;
  const std::string plan_;
  std::vector<int> owners_;       // of all files
  std::vector<std::string> own_;  // paths
  PartOwner owner_;
  Staging attempt_;
  std::unique_ptr<WriteSink> sink_;
  std::optional<FolderLock> lock_;
  Staging whole_;
};

}  // namespace

std::vector<int> AssignParts(const std::vector<uint64_t>& file_bytes, int count) {
  std::vector<size_t> order(file_bytes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return file_bytes[a] > file_bytes[b]; });
  std::vector<uint64_t> load(static_cast<size_t>(count), 0);
  std::vector<int> owners(file_bytes.size(), 0);
  for (size_t f : order) {
    const auto least = std::min_element(load.begin(), load.end());
    owners[f] = static_cast<int>(least - load.begin());
    *least += file_bytes[f];
  }
  return owners;
}

Result<std::unique_ptr<Destination>> MakePart(const ConvertRequest& request,
                                              Conversion& conversion) {
  if (conversion.output.single_file)
    return BadUsage("a single file cannot be made in parts").in(request.output);
  NXDKIT_ASSIGN(const std::string fingerprint, Fingerprint(conversion, Workload{}));
  return std::unique_ptr<Destination>(std::make_unique<OnePart>(request, conversion, fingerprint));
}

}  // namespace nxdkit::ops
