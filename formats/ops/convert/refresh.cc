// New weights for a bundle that is in use: written into a slot, then made current by one rename.
#include <utility>

#include "formats/manifest/manifest.h"
#include "formats/ops/convert/convert_parts.h"
#include "lib/system/paths.h"
#include "lib/system/system.h"

namespace nxdkit::ops {
namespace {

Status CheckRequest(const ConvertRequest& request) {
  if (request.to != Kind::kRollout)
    return Error(Errc::kUsage, "only the weights of a rollout bundle can be replaced in place")
        .hint("--into goes with --to rollout");
  if (request.options.bundle)
    return Error(Errc::kUsage,
                 "with --into blob and settings are those of OUTPUT; --bundle names others")
        .hint("leave --bundle out");
  if (request.part)
    return Error(Errc::kUsage, "one process refreshes a bundle: --part is not for --into");
  if (request.force)
    return Error(Errc::kUsage,
                 "--into replaces the weights of OUTPUT: --force says nothing about it");
  return OkStatus();
}

ConvertRequest WithBundle(const ConvertRequest& request) {
  ConvertRequest out = request;
  out.options.bundle = request.output;
  out.options.only_weights = true;
  if (out.from == Kind::kDelta && out.hints.base.empty()) out.hints.base = out.output;
  return out;
}

// Called while no other process can switch the bundle's weights.
Result<rollout::WeightsVersion> NextVersion(const Prepared& prepared,
                                            const ConvertRequest& request) {
  NXDKIT_ASSIGN(const std::optional<rollout::WeightsVersion> before,
                rollout::ReadVersion(prepared.spec.bundle->weights_link));
  const Artifact& source = prepared.source.artifact;
  const std::string name = BaseName(source.set ? source.set->location.tag_folder : source.path);
  rollout::WeightsVersion version{before ? before->serial + 1 : 1, request.label.value_or(name),
                                  request.input};
  if (source.delta) version.digest = manifest::DigestText(source.delta->head().result);
  return version;
}

// A delta of the bundle's own weights is void when another process has refreshed it since they were
// opened. Called like NextVersion.
Status CheckStillTheBase(const Prepared& prepared, const ConvertRequest& request) {
  if (!prepared.source.artifact.delta ||
      !SamePath(prepared.source.base->artifact.path, request.output))
    return OkStatus();
  const rollout::Bundle& bundle = *prepared.source.base->artifact.bundle;
  if (bundle.lock->IsAt(bundle.weights_link)) return OkStatus();
  return Error(Errc::kFindings, "another process refreshed the bundle meanwhile")
      .in(request.output)
      .hint("apply the delta of the version that it holds now");
}

Status WriteWeights(Prepared& prepared, const Executor& executor, const std::string& slot,
                    const ConvertRequest& request, ConvertReport& report) {
  NXDKIT_ASSIGN(
      const std::unique_ptr<WriteSink> sink,
      WriteSink::Begin(slot, prepared.output.layout, std::move(prepared.output.files),
                       {.sync = request.sync, .jobs = request.run.jobs, .fingerprint = ""}));
  return RunTasks(prepared, request, executor, *sink, report);
}

rollout::SlotUpdate::Options SlotOptions(const Prepared& prepared, const ConvertRequest& request) {
  rollout::SlotUpdate::Options options{.files = {rollout::kVersionName}, .sync = request.sync};
  for (const OutputFile& file : prepared.output.files) options.files.push_back(file.path);
  return options;
}

}  // namespace

Result<ConvertReport> RefreshDryRun(const ConvertRequest& request) {
  NXDKIT_TRY(CheckRequest(request));
  NXDKIT_ASSIGN(const Prepared prepared, Prepare(WithBundle(request)));
  NXDKIT_TRY(CheckSource(prepared, request));
  NXDKIT_TRY(rollout::SlotUpdate::CheckForeign(prepared.spec.bundle->weights_link,
                                               SlotOptions(prepared, request)));
  NXDKIT_ASSIGN(const ExecuteOptions options, OptionsFor(prepared, request.run));
  NXDKIT_ASSIGN(const Executor executor,
                Executor::Make(prepared.plan, prepared.source.bound, prepared.output.layout,
                               prepared.output.outputs, options));
  return MakeReport(prepared, request, executor.workload());
}

Result<ConvertReport> Refresh(const ConvertRequest& request) {
  NXDKIT_TRY(CheckRequest(request));
  NXDKIT_ASSIGN(Prepared prepared, Prepare(WithBundle(request)));
  NXDKIT_TRY(CheckSource(prepared, request));
  NXDKIT_ASSIGN(const ExecuteOptions options, OptionsFor(prepared, request.run));
  NXDKIT_ASSIGN(const Executor executor,
                Executor::Make(prepared.plan, prepared.source.bound, prepared.output.layout,
                               prepared.output.outputs, options));
  ConvertReport report = MakeReport(prepared, request, executor.workload());

  NXDKIT_ASSIGN(const std::unique_ptr<rollout::SlotUpdate> update,
                rollout::SlotUpdate::Begin(prepared.spec.bundle->weights_link,
                                           SlotOptions(prepared, request)));
  NXDKIT_TRY(CheckStillTheBase(prepared, request));
  NXDKIT_ASSIGN(const rollout::WeightsVersion version, NextVersion(prepared, request));
  report.refreshed = {update->path(), update->reused(), version};
  NXDKIT_TRY(WriteWeights(prepared, executor, update->path(), request, report));
  NXDKIT_TRY(WriteText(JoinPath(update->path(), rollout::kVersionName),
                       rollout::WriteVersion(version), request.sync));
  NXDKIT_TRY(CheckWritten(prepared, request, request.output, update->path(), report));
  NXDKIT_TRY(update->Publish());
  return report;
}

}  // namespace nxdkit::ops
