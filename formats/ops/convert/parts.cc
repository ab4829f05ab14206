#include "formats/ops/convert/parts.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <numeric>
#include <random>

#include "formats/ops/convert/convert_parts.h"
#include "formats/ops/convert/standing.h"
#include "lib/system/folder_lock.h"
#include "lib/system/folders.h"
#include "lib/system/staging.h"

namespace nxdkit::ops {
namespace {

constexpr uint64_t kMaxPlanBytes = 4096;

std::string PartsFolder(const ConvertRequest& request) { return request.output + ".parts"; }

Status MoveFile(const std::string& from, const std::string& to) {
  NXDKIT_TRY(MakeFolders(ParentPath(to)));
  if (::rename(from.c_str(), to.c_str()) != 0) return OutputError("rename", errno).in(to);
  return OkStatus();
}

std::string PlanPath(const std::string& folder) { return JoinPath(folder, "plan"); }

// The folder is not there yet, or it is that of this plan and split.
Status CheckFolder(const std::string& folder, const std::string& plan) {
  const std::string path = PlanPath(folder);
  if (KindOf(path) == PathKind::kMissing) return OkStatus();
  NXDKIT_ASSIGN(const std::string there, ReadSmallFile(path, kMaxPlanBytes));
  if (there == plan) return OkStatus();
  return Error(Errc::kUsage, "the folder holds the parts of another conversion or another split")
      .in(folder)
      .hint("use the same options and the same N for every part, or remove the folder");
}

// Names the plan and the split in the folder.
Status ClaimFolder(const std::string& folder, const std::string& plan) {
  NXDKIT_TRY(CheckFolder(folder, plan));
  NXDKIT_TRY(MakeFolders(JoinPath(folder, "files")));
  if (KindOf(PlanPath(folder)) == PathKind::kMissing)
    return WriteFileAtomic(PlanPath(folder), plan);
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

// No two attempts, on whatever machine, share it.
std::string AttemptName(int part) {
  std::random_device random;
  return fmt::format("part-{}-{:08x}{:08x}", part, random(), random());
}

class PartRun {
 public:
  PartRun(const ConvertRequest& request, Prepared prepared)
      : request_(request), part_(*request.part), prepared_(std::move(prepared)) {
    folder_ = PartsFolder(request);
    files_ = PlannedFiles(prepared_.output);
    std::vector<uint64_t> bytes;
    for (const PlannedFile& file : files_) bytes.push_back(file.bytes);
    owners_ = AssignParts(bytes, part_.count);
    plan_ = fmt::format("nxdkit-parts 1 {} {}\n", Fingerprint(prepared_, Workload{}), part_.count);
  }

  Result<ConvertReport> Run() {
    if (FindsOutput(request_)) return CompareStanding(folder_);
    NXDKIT_TRY(ClaimFolder(folder_, plan_));
    NXDKIT_ASSIGN(const Executor executor, PlanOwn());
    ConvertReport report = Report(executor);
    Status status = WriteOwn(executor, report);
    if (status.ok()) status = PublishIfAllDone(report);
    // Meanwhile another one may have published, and taken the folder of the parts away.
    const bool stopped = !status.ok() && status.error().code() == Errc::kInterrupted;
    if (!report.part->published && !stopped && FindsOutput(request_)) return ConvertPart(request_);
    NXDKIT_TRY(std::move(status));
    return report;
  }

  Result<ConvertReport> DryRun() {
    if (FindsOutput(request_)) return CompareStanding("");
    NXDKIT_TRY(CheckFolder(folder_, plan_));
    NXDKIT_ASSIGN(const Executor executor, PlanOwn());
    return Report(executor);
  }

 private:
  std::string Finished(size_t f) const {
    return JoinPath(JoinPath(folder_, "files"), files_[f].path);
  }
  std::string DoneMark(int part) const { return JoinPath(folder_, fmt::format("done-{}", part)); }

  bool HasMark(int part) const {
    const Result<std::string> mark = ReadSmallFile(DoneMark(part), kMaxPlanBytes);
    return mark.ok() && *mark == plan_;
  }

  // The first of the part's finished files that is not there as it was finished.
  std::optional<std::string> LostFile(int part) const {
    for (size_t f = 0; f < files_.size(); ++f) {
      struct stat info;
      if (owners_[f] != part) continue;
      const bool there = ::stat(Finished(f).c_str(), &info) == 0;
      if (!there || static_cast<uint64_t>(info.st_size) != files_[f].bytes) return Finished(f);
    }
    return std::nullopt;
  }

  bool IsDone(int part) const { return HasMark(part) && !LostFile(part); }

  std::vector<int> MissingParts() const {
    std::vector<int> missing;
    for (int part = 0; part < part_.count; ++part)
      if (!IsDone(part)) missing.push_back(part);
    return missing;
  }

  // A part that was through, and whose process therefore comes no more.
  void WarnOfLostFiles(ConvertReport& report) const {
    for (const int part : report.part->missing)
      if (HasMark(part))
        report.warnings.push_back(
            fmt::format("part {} must be run again: its finished file {} is not there any more, or "
                        "has another size",
                        part, LostFile(part).value_or(folder_)));
  }

  // The output is there: this part's files are compared, those of the others must be there. A
  // process that was killed after it published has left `leftover`; "" for none.
  Result<ConvertReport> CompareStanding(const std::string& leftover) {
    NXDKIT_ASSIGN(const Executor executor, PlanOwn());
    ConvertReport report = Report(executor);
    NXDKIT_TRY(RequireSameOutput(prepared_, request_, files_, executor));
    NXDKIT_TRY(CheckWritten(prepared_, request_, request_.output, "", report));
    report.already_published = report.part->published = true;
    const Result<std::string> plan = ReadSmallFile(PlanPath(leftover), kMaxPlanBytes);
    if (!leftover.empty() && plan.ok() && *plan == plan_) RemoveFolder();
    return report;
  }

  // The output is whole; what is left over harms nobody.
  void RemoveFolder() const { (void)RemoveTree(folder_).ok(); }

  // From here on prepared_ holds this part's files alone.
  Result<Executor> PlanOwn() {
    std::vector<bool> keep;
    for (int owner : owners_) keep.push_back(owner == part_.index);
    KeepFiles(keep, prepared_.output, prepared_.plan);
    NXDKIT_ASSIGN(const ExecuteOptions options, OptionsFor(prepared_, request_.run));
    return Executor::Make(prepared_.plan, prepared_.source.bound, prepared_.output.layout,
                          prepared_.output.outputs, options);
  }

  ConvertReport Report(const Executor& executor) const {
    ConvertReport report = MakeReport(prepared_, request_, executor.workload());
    report.part =
        PartReport{part_.index, part_.count, report.output_files, report.output_bytes, false, {}};
    return report;
  }

  Status WriteOwn(const Executor& executor, ConvertReport& report) {
    if (IsDone(part_.index)) return OkStatus();
    const std::string place = JoinPath(folder_, AttemptName(part_.index));
    NXDKIT_ASSIGN(Staging staging, Staging::Begin(place, {.sync = request_.sync}));
    std::vector<std::string> own;
    for (const OutputFile& file : prepared_.output.files) own.push_back(file.path);
    NXDKIT_ASSIGN(
        const std::unique_ptr<WriteSink> sink,
        WriteSink::Begin(staging.path(), prepared_.output.layout, std::move(prepared_.output.files),
                         {.sync = request_.sync, .jobs = request_.run.jobs, .fingerprint = ""}));
    NXDKIT_TRY(RunTasks(prepared_, request_, executor, *sink, report));
    for (const std::string& path : own)
      NXDKIT_TRY(
          MoveFile(JoinPath(staging.path(), path), JoinPath(JoinPath(folder_, "files"), path)));
    return WriteFileAtomic(DoneMark(part_.index), plan_);
  }

  // Whoever finds all parts done. Where two do, one has the lock, and the other is through: either
  // at once, or because the folder of the parts is gone when it looks again.
  Status PublishIfAllDone(ConvertReport& report) {
    report.part->missing = MissingParts();
    WarnOfLostFiles(report);
    if (!report.part->missing.empty()) return OkStatus();
    Result<FolderLock> lock = FolderLock::Try(folder_, FolderLock::Mode::kExclusive);
    if (!lock.ok() && lock.error().code() != Errc::kNotFound) return std::move(lock).error();
    if (!lock.ok() || lock->state() == FolderLock::State::kBusy || !MissingParts().empty())
      return OkStatus();
    NXDKIT_ASSIGN(Staging staging, Staging::Begin(request_.output, {.replace = request_.force,
                                                                    .sync = request_.sync}));
    for (size_t f = 0; f < files_.size(); ++f)
      NXDKIT_TRY(LinkFile(Finished(f), JoinPath(staging.path(), files_[f].path)));
    NXDKIT_TRY(WriteSideFiles(prepared_.output, staging.path(), request_.sync));
    NXDKIT_TRY(CheckWritten(prepared_, request_, staging.path(), "", report));
    NXDKIT_TRY(staging.Publish());
    report.part->published = true;
    RemoveFolder();
    return OkStatus();
  }

  const ConvertRequest& request_;
  Part part_;
  Prepared prepared_;
  std::string folder_;
  std::string plan_;
  std::vector<PlannedFile> files_;  // of the whole output
  std::vector<int> owners_;
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

namespace {

Result<PartRun> PreparePart(const ConvertRequest& request) {
  NXDKIT_ASSIGN(Prepared prepared, PrepareChecked(request));
  if (prepared.output.single_file)
    return Error(Errc::kUsage, "a single file cannot be made in parts").in(request.output);
  return PartRun(request, std::move(prepared));
}

}  // namespace

Result<ConvertReport> ConvertPart(const ConvertRequest& request) {
  NXDKIT_ASSIGN(PartRun run, PreparePart(request));
  return run.Run();
}

Result<ConvertReport> DryRunPart(const ConvertRequest& request) {
  NXDKIT_ASSIGN(PartRun run, PreparePart(request));
  return run.DryRun();
}

}  // namespace nxdkit::ops
