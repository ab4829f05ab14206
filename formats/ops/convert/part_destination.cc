#include "formats/ops/convert/part_destination.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <numeric>

#include "formats/ops/convert/part_owner.h"
#include "formats/ops/convert/parts_folder.h"
#include "lib/base/errors.h"
#include "lib/sinks/match_sink.h"
#include "lib/system/folder_lock.h"
#include "lib/system/folders.h"
#include "lib/system/owner.h"
#include "lib/system/staging.h"

namespace nxdkit::ops {
namespace {

constexpr uint64_t kMaxMarkBytes = 4096;

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

// Makes a second name for the file, so that a kill while publishing costs no finished work. On file
// systems without hard links, the file is moved.
Status LinkFile(const std::string& from, const std::string& to) {
  NXDKIT_TRY(MakeFolders(ParentPath(to)));
  if (::link(from.c_str(), to.c_str()) == 0) return OkStatus();
  if (::rename(from.c_str(), to.c_str()) != 0) return OutputError("rename", errno).in(to);
  return OkStatus();
}

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

  Status Check() override { return CheckPartsFolder(folder_, plan_); }

  Result<Sink*> Begin(const Workload&, ConvertReport&) override {
    NXDKIT_TRY(ClaimPartsFolder(folder_, plan_));
    NXDKIT_ASSIGN(bool done, IsDone(part_.index));
    if (done) return nullptr;
    const std::string place =
        JoinPath(folder_, fmt::format("part-{}-{:016x}", part_.index, RandomNumber()));
    NXDKIT_ASSIGN(attempt_, Staging::Begin(place, {.sync = request_.sync, .parents = false}));
    NXDKIT_TRY(owner_.Take(folder_, part_.index, attempt_.path(), request_.run));
    NXDKIT_ASSIGN(done, IsDone(part_.index));  // by the earlier owner of the number
    if (done) return nullptr;
    NXDKIT_ASSIGN(sink_, WriteInto(attempt_.path()));
    return sink_.get();
  }

  // The process that finds all parts done puts them together. If two do, one has the lock, and the
  // other ends: at once, or when it finds the folder of the parts gone.
  Result<std::optional<MadePlace>> Finish(ConvertReport& report) override {
    if (sink_) NXDKIT_TRY(FinishOwn());
    NXDKIT_ASSIGN(report.part->missing, MissingParts());
    NXDKIT_TRY(WarnOfLostWork(report));
    if (!sink_ && !report.part->missing.empty()) NXDKIT_TRY(CheckMadeHere(report.part->missing));
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
      NXDKIT_TRY(LinkFile(FinishedPath(folder_, file.path), JoinPath(whole_.path(), file.path)));
    NXDKIT_TRY(WriteSideFiles(conversion_.output, whole_.path(), request_.sync));
    return std::optional(MadePlace{whole_.path(), ""});
  }

  Status Publish(ConvertReport& report) override {
    NXDKIT_TRY(whole_.Publish());
    report.part->published = true;
    RemovePartsFolder(folder_);
    return OkStatus();
  }

  // A process that was killed after publishing has left the folder of the parts.
  void Stands(ConvertReport& report, bool dry_run) override {
    report.already_published = report.part->published = true;
    if (!dry_run) ClearLeftParts(folder_, plan_);
  }

 private:
  std::string DoneMark(int part) const { return JoinPath(folder_, fmt::format("done-{}", part)); }

  enum class Mark { kMissing, kOther, kOurs };

  // A mark that exists and cannot be read is an error: if it counted as missing, every part would
  // end in success and leave no output.
  Result<Mark> MarkOf(int part) const {
    const Result<std::string> mark = ReadSmallFile(DoneMark(part), kMaxMarkBytes);
    if (mark.ok()) return mark->starts_with(plan_) ? Mark::kOurs : Mark::kOther;
    if (mark.error().code() == Errc::kNotFound) return Mark::kMissing;
    return Error(Errc::kIo, mark.error().message())  // a fault of the output, whatever it is
        .in(DoneMark(part))
        .hint("the part is made again when its mark is removed");
  }

  // Nothing was made, since the part is done. If its number was written down for several pods by
  // mistake, each would succeed, and nobody would make the other parts. A launcher's number belongs
  // to one process: it may have moved to another machine. Marks of earlier versions name nobody.
  Status CheckMadeHere(const std::vector<int>& missing) const {
    if (part_.numbered) return OkStatus();
    const Result<std::string> mark = ReadSmallFile(DoneMark(part_.index), kMaxMarkBytes);
    if (!mark.ok() || !mark->starts_with(plan_)) return OkStatus();
    const std::optional<Owner> maker = ParseOwner(std::string_view(*mark).substr(plan_.size()));
    const std::string host = ThisProcess().host;
    if (!maker || maker->host == host) return OkStatus();
    return BadUsage(
               "part {} was made on {}, and this is {}: where two have one number nobody makes "
               "part {}",
               part_.index, maker->host, host, missing.front())
        .in(DoneMark(part_.index))
        .hint("give every process its own --part I/N; a part that is done need not be run again");
  }

  // The first of the part's finished files that is missing or was changed since.
  Result<std::optional<std::string>> LostFile(int part) const {
    for (size_t f = 0; f < owners_.size(); ++f) {
      if (owners_[f] != part) continue;
      const std::string path = FinishedPath(folder_, conversion_.files[f].path);
      const Status there = MatchFileSize(path, conversion_.files[f].bytes);
      if (there.ok()) continue;
      if (there.error().code() != Errc::kFindings) return there.error();
      return std::optional(path);
    }
    return std::optional<std::string>();
  }

  Result<bool> IsDone(int part) const {
    NXDKIT_ASSIGN(const Mark mark, MarkOf(part));
    if (mark != Mark::kOurs) return false;
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

  // Warns of a part that had finished, and whose process therefore will not come back.
  Status WarnOfLostWork(ConvertReport& report) const {
    for (const int part : report.part->missing) {
      NXDKIT_ASSIGN(const Mark mark, MarkOf(part));
      if (mark == Mark::kMissing) continue;
      NXDKIT_ASSIGN(const std::optional<std::string> lost, LostFile(part));
      report.warnings.push_back(
          mark == Mark::kOther
              ? fmt::format("part {} must be run again: its mark {} is not this plan's", part,
                            DoneMark(part))
              : fmt::format("part {} must be run again: its finished file {} is not there any "
                            "more, or has another size",
                            part, lost.value_or(folder_)));
    }
    return OkStatus();
  }

  Status FinishOwn() {
    NXDKIT_TRY(sink_->Finish());
    for (const std::string& path : own_) NXDKIT_TRY(MoveIntoParts(folder_, attempt_.path(), path));
    NXDKIT_TRY(WriteFileAtomic(DoneMark(part_.index), plan_ + ThisProcess().ToText()));
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
  std::ranges::stable_sort(order, std::greater(), [&](size_t f) { return file_bytes[f]; });
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
