#include "formats/ops/parts.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <random>

#include "formats/ops/convert_parts.h"
#include "lib/folder_lock.h"

namespace nxdkit::ops {
namespace {

constexpr uint64_t kMaxPlanBytes = 4096;

std::string PartsFolder(const ConvertRequest& request) { return request.output + ".parts"; }

Status MakeFolders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return OutputError("create the folder", error.value()).in(path);
  return OkStatus();
}

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
    for (const OutputFile& file : prepared_.output.files) {
      paths_.push_back(file.path);
      bytes_.push_back(file.encoder->file_bytes());
    }
    owners_ = AssignParts(bytes_, part_.count);
    plan_ = fmt::format("nxdkit-parts 1 {} {}\n", Fingerprint(prepared_, Workload{}), part_.count);
  }

  Result<ConvertReport> Run() {
    NXDKIT_TRY(ClaimFolder(folder_, plan_));
    NXDKIT_ASSIGN(const Executor executor, PlanOwn());
    ConvertReport report = Report(executor);
    NXDKIT_TRY(WriteOwn(executor, report));
    if (!AllDone()) return report;
    NXDKIT_TRY(Publish(report));
    return report;
  }

  Result<ConvertReport> DryRun() {
    NXDKIT_TRY(CheckFolder(folder_, plan_));
    NXDKIT_ASSIGN(const Executor executor, PlanOwn());
    return Report(executor);
  }

 private:
  std::string Finished(size_t f) const { return JoinPath(JoinPath(folder_, "files"), paths_[f]); }
  std::string DoneMark(int part) const { return JoinPath(folder_, fmt::format("done-{}", part)); }

  bool IsDone(int part) const {
    const Result<std::string> mark = ReadSmallFile(DoneMark(part), kMaxPlanBytes);
    if (!mark.ok() || *mark != plan_) return false;
    for (size_t f = 0; f < paths_.size(); ++f) {
      struct stat info;
      if (owners_[f] != part) continue;
      if (::stat(Finished(f).c_str(), &info) != 0) return false;
      if (static_cast<uint64_t>(info.st_size) != bytes_[f]) return false;
    }
    return true;
  }

  bool AllDone() const {
    for (int part = 0; part < part_.count; ++part)
      if (!IsDone(part)) return false;
    return true;
  }

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
        PartReport{part_.index, part_.count, report.output_files, report.output_bytes, false};
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
  Status Publish(ConvertReport& report) {
    Result<FolderLock> lock = FolderLock::Try(folder_, FolderLock::Mode::kExclusive);
    if (!lock.ok() && lock.error().code() != Errc::kNotFound) return std::move(lock).error();
    if (!lock.ok() || lock->state() == FolderLock::State::kBusy || !AllDone()) return OkStatus();
    NXDKIT_ASSIGN(Staging staging, Staging::Begin(request_.output, {.replace = request_.force,
                                                                    .sync = request_.sync}));
    for (size_t f = 0; f < paths_.size(); ++f)
      NXDKIT_TRY(LinkFile(Finished(f), JoinPath(staging.path(), paths_[f])));
    NXDKIT_TRY(WriteSideFiles(prepared_.output, staging.path(), request_.sync));
    NXDKIT_TRY(CheckWritten(prepared_, request_, staging.path(), "", report));
    NXDKIT_TRY(staging.Publish());
    report.part->published = true;
    std::error_code ignored;  // the output is whole; what is left over harms nobody
    std::filesystem::remove_all(folder_, ignored);
    return OkStatus();
  }

  const ConvertRequest& request_;
  Part part_;
  Prepared prepared_;
  std::string folder_;
  std::string plan_;
  std::vector<std::string> paths_;  // of all files of the output
  std::vector<uint64_t> bytes_;
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
