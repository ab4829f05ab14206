#include "formats/ops/convert/slot.h"

#include "formats/manifest/manifest.h"
#include "formats/ops/convert/new_output.h"
#include "formats/rollout/weight_slots.h"
#include "lib/system/paths.h"
#include "lib/system/system.h"

namespace nxdkit::ops {
namespace {

// Called while no other process can switch the bundle's weights.
Result<rollout::WeightsVersion> NextVersion(const ConvertRequest& request,
                                            const Conversion& conversion) {
  NXDKIT_ASSIGN(const std::optional<rollout::WeightsVersion> before,
                rollout::ReadVersion(conversion.spec.bundle->weights_link));
  const Artifact& source = conversion.source.artifact;
  const std::string name = BaseName(source.set ? source.set->location.tag_folder : source.path);
  rollout::WeightsVersion version{before ? before->serial + 1 : 1,
                                  std::get<Slot>(request.place).label.value_or(name),
                                  request.input};
  if (source.delta) version.digest = manifest::DigestText(source.delta->head().result);
  return version;
}

// A delta of the bundle's own weights is void when another process has refreshed it since they were
// opened. Called like NextVersion.
Status CheckStillTheBase(const ConvertRequest& request, const Conversion& conversion) {
  if (!conversion.source.artifact.delta ||
      !SamePath(conversion.source.base->artifact.path, request.output))
    return OkStatus();
  const rollout::Bundle& bundle = *conversion.source.base->artifact.bundle;
  if (bundle.lock->IsAt(bundle.weights_link)) return OkStatus();
  return Error(Errc::kFindings, "another process refreshed the bundle in the meantime")
      .in(request.output)
      .hint("apply the delta of the version that it holds now");
}

class BundleSlot : public Destination {
 public:
  BundleSlot(const ConvertRequest& request, Conversion& conversion)
      : request_(request), conversion_(conversion) {}

  Status Check() override { return rollout::SlotUpdate::CheckForeign(WeightsLink(), Options()); }

  Result<Sink*> Begin(const Workload&, ConvertReport& report) override {
    OutputPlan& output = conversion_.output;
    NXDKIT_ASSIGN(update_, rollout::SlotUpdate::Begin(WeightsLink(), Options()));
    NXDKIT_TRY(CheckStillTheBase(request_, conversion_));
    NXDKIT_ASSIGN(rollout::WeightsVersion version, NextVersion(request_, conversion_));
    report.refreshed = {update_->path(), update_->reused(), std::move(version)};
    NXDKIT_ASSIGN(
        sink_,
        WriteSink::Begin(update_->path(), output.layout, std::move(output.files),
                         {.sync = request_.sync, .jobs = request_.run.jobs, .fingerprint = ""}));
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
  const std::string& WeightsLink() const { return conversion_.spec.bundle->weights_link; }
  rollout::SlotUpdate::Options Options() const {
    rollout::SlotUpdate::Options options{.files = {rollout::kVersionName}, .sync = request_.sync};
    for (const OutputFile& file : conversion_.output.files) options.files.push_back(file.path);
    return options;
  }

  const ConvertRequest& request_;
  Conversion& conversion_;
  std::unique_ptr<rollout::SlotUpdate> update_;
  std::unique_ptr<WriteSink> sink_;
};

}  // namespace

std::unique_ptr<Destination> MakeSlot(const ConvertRequest& request, Conversion& conversion) {
  return std::make_unique<BundleSlot>(request, conversion);
}

}  // namespace nxdkit::ops
