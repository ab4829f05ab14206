#include "formats/ops/convert/destination.h"

#include <set>

#include "formats/kinds/delta/read_delta.h"
#include "formats/kinds/rollout/decide_rollout.h"
#include "formats/kinds/rollout/rollout_state.h"
#include "formats/kinds/run_folder.h"
#include "formats/manifest/manifest.h"
#include "formats/rollout/weight_slots.h"
#include "lib/system/copy_file.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/mount.h"
#include "lib/system/paths.h"
#include "lib/system/staging.h"
#include "lib/system/system.h"

namespace nxdkit::ops {

Result<std::unique_ptr<WriteSink>> Destination::WriteInto(const std::string& folder,
                                                          std::string fingerprint) {
  return WriteSink::Begin(
      folder, conversion_.output.layout, std::move(conversion_.output.files),
      {.sync = request_.sync, .jobs = request_.run.jobs, .fingerprint = std::move(fingerprint)});
}

namespace {

// Writes a file in a folder that nobody sees before it is complete.
Status WriteText(const std::string& path, const std::string& contents, bool sync) {
  NXDKIT_ASSIGN(File file, File::OpenWrite(path));
  NXDKIT_TRY(file.Allocate(contents.size()));
  NXDKIT_TRY(file.WriteAt(0, std::as_bytes(std::span(contents.data(), contents.size()))));
  if (sync) NXDKIT_TRY(file.Sync());
  return file.Close();
}

class NewOutputFolder : public Destination {
 public:
  using Destination::Destination;

  Result<Sink*> Begin(const Workload& workload, ConvertReport& report) override {
    const bool folder = !conversion_.output.single_file;
    NXDKIT_ASSIGN(staging_, Staging::Begin(request_.output, {.replace = request_.force,
                                                             .resume = request_.resume,
                                                             .folder = folder,
                                                             .sync = request_.sync}));
    // A single file has no folder to keep a journal in.
    NXDKIT_ASSIGN(const std::string fingerprint,
                  folder ? Fingerprint(conversion_, workload) : Result<std::string>(std::string()));
    NXDKIT_ASSIGN(sink_, WriteInto(staging_.path(), fingerprint));
    report.resumed_tasks = sink_->resumed_tasks();
    return sink_.get();
  }

  void Keep() override { staging_.Keep(); }

  Result<std::optional<MadePlace>> Finish(ConvertReport&) override {
    NXDKIT_TRY(sink_->Finish());
    NXDKIT_TRY(WriteSideFiles(conversion_.output, staging_.path(), request_.sync));
    FreePlans();
    return std::optional(MadePlace{staging_.path(), ""});
  }

  Status Publish(ConvertReport&) override { return staging_.Publish(); }

 private:
  // The written output is opened next, for comparison: that takes as much memory again.
  void FreePlans() {
    sink_.reset();
    conversion_.output = {};
    conversion_.plan = {};
  }

  Staging staging_;
  std::unique_ptr<WriteSink> sink_;
};

// Called while no other process can switch the bundle's weights.
Result<rollout::WeightsVersion> NextVersion(const ConvertRequest& request,
                                            const Conversion& conversion) {
  NXDKIT_ASSIGN(const std::optional<rollout::WeightsVersion> before,
                rollout::ReadVersion(AsRollout(*conversion.target)->bundle->weights_link));
  const Artifact& source = conversion.source.artifact;
  std::string folder = source.folder.empty() ? source.path : source.folder;
  if (BaseName(folder) == kRunModelFolder && BaseName(ParentPath(folder)) == kActorFolder)
    folder = ParentPath(folder);
  if (BaseName(folder) == kActorFolder) folder = ParentPath(folder);  // of a run: global_step_N
  const std::string name = BaseName(folder);
  rollout::WeightsVersion version{before ? before->serial + 1 : 1,
                                  std::get<Slot>(request.place).label.value_or(name),
                                  request.input};
  if (const auto delta = DeltaOf(source))
    version.digest = manifest::DigestText(delta->head().result);
  return version;
}

// A delta against the bundle's own weights is void if another process has refreshed it since they
// were opened. Called like NextVersion.
Status CheckStillTheBase(const ConvertRequest& request, const Conversion& conversion) {
  const Artifact& source = conversion.source.artifact;
  if (!DeltaOf(source) || request.hints.memory) return OkStatus();
  NXDKIT_ASSIGN(const bool is_base,
                SamePath(conversion.source.base->artifact.path, request.output));
  if (!is_base) return OkStatus();
  const rollout::Bundle& bundle = *BundleOf(conversion.source.base->artifact);
  if (bundle.lock->IsAt(bundle.weights_link)) return OkStatus();
  return Error(Errc::kFindings, "another process refreshed the bundle in the meantime")
      .in(request.output)
      .hint("apply the delta for its current version");
}

class BundleSlot : public Destination {
 public:
  using Destination::Destination;

  Status Check() override { return rollout::SlotUpdate::CheckForeign(WeightsLink(), Options()); }

  Result<Sink*> Begin(const Workload&, ConvertReport& report) override {
    NXDKIT_ASSIGN(update_, rollout::SlotUpdate::Begin(WeightsLink(), Options()));
    for (const std::string& note : update_->notes()) report.notes.push_back(note);
    NXDKIT_TRY(CheckStillTheBase(request_, conversion_));
    NXDKIT_ASSIGN(rollout::WeightsVersion version, NextVersion(request_, conversion_));
    report.refreshed = {update_->path(), update_->reused(), std::move(version)};
    NXDKIT_ASSIGN(sink_, WriteInto(update_->path()));
    return sink_.get();
  }

  Result<std::optional<MadePlace>> Finish(ConvertReport& report) override {
    NXDKIT_TRY(sink_->Finish());
    NXDKIT_TRY(WriteText(JoinPath(update_->path(), rollout::kVersionName),
                         rollout::WriteVersion(report.refreshed->version), request_.sync));
    return std::optional(MadePlace{request_.output, update_->path()});
  }

  Status Publish(ConvertReport&) override { return update_->Publish(); }

 private:
  const std::string& WeightsLink() const {
    return AsRollout(*conversion_.target)->bundle->weights_link;
  }
  rollout::SlotUpdate::Options Options() const {
    rollout::SlotUpdate::Options options{.files = {rollout::kVersionName},
                                         .sync = request_.sync,
                                         .shared = IsShared(MountOf(WeightsLink()))};
    for (const OutputFile& file : conversion_.output.files) options.files.push_back(file.path);
    return options;
  }

  std::unique_ptr<rollout::SlotUpdate> update_;
  std::unique_ptr<WriteSink> sink_;
};

}  // namespace

std::unique_ptr<Destination> MakeNewOutput(const ConvertRequest& request, Conversion& conversion) {
  return std::make_unique<NewOutputFolder>(request, conversion);
}

std::unique_ptr<Destination> MakeSlot(const ConvertRequest& request, Conversion& conversion) {
  return std::make_unique<BundleSlot>(request, conversion);
}

Status WriteSideFiles(const OutputPlan& output, const std::string& folder, bool sync) {
  // A folder without tensors is made with the first file in it.
  std::set<std::string> made;
  const auto place = [&](const std::string& path) -> Result<std::string> {
    std::string to = JoinPath(folder, path);
    const bool below = path.find('/') != std::string::npos;
    if (below && made.insert(ParentPath(to)).second) NXDKIT_TRY(MakeFolders(ParentPath(to), sync));
    return to;
  };
  for (const auto& [path, from] : output.copies) {
    NXDKIT_ASSIGN(const std::string to, place(path));
    NXDKIT_TRY(CopyFile(from, to, sync));
  }
  for (const auto& [path, contents] : output.texts) {
    NXDKIT_ASSIGN(const std::string to, place(path));
    NXDKIT_TRY(WriteText(to, contents, sync));
  }
  if (output.first_slot.empty()) return OkStatus();
  return rollout::MakeFirstSlot(JoinPath(folder, output.first_slot));
}

}  // namespace nxdkit::ops
