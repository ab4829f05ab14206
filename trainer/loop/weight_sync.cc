#include "trainer/loop/weight_sync.h"

#include "formats/kinds/open.h"
#include "formats/kinds/rollout/rollout_state.h"
#include "formats/kinds/table.h"
#include "formats/manifest/manifest.h"
#include "formats/ops/digest/digest.h"
#include "lib/base/stopwatch.h"
#include "lib/system/folders.h"
#include "lib/tensor/dtype.h"
#include "trainer/loop/deliveries.h"

namespace nxdkit::trainer {
namespace {

// The dtype of the weights in the bundle; nullopt: unchanged.
Result<std::optional<Dtype>> BundleDtype(const std::string& bundle) {
  NXDKIT_ASSIGN(const artifact::Artifact opened, kinds::OpenArtifact(bundle, &kinds::kRollout, {}));
  const std::optional<rollout::NeuronConfig>& config = kinds::BundleOf(opened)->config;
  return config ? DtypeFromTorchName(config->torch_dtype) : std::nullopt;
}

// Predicts the digests of the whole model, or of every parameter of the engine's ranks.
Status Predict(const SyncTarget& target, artifact::BoundArtifact actors,
               const artifact::RunOptions& run, SyncedWeights& synced) {
  if (target.engine) {
    NXDKIT_ASSIGN(synced.parameters, ops::PredictEngine(actors, *target.engine, target.dtype, run));
    synced.digest = ops::DigestOfAll(synced.parameters);
    return OkStatus();
  }
  std::optional<Dtype> dtype = target.dtype;
  if (!target.bundle.empty()) NXDKIT_TRY(BundleDtype(target.bundle).To(dtype));
  actors.own_dtypes.assign(actors.params.size(), dtype);
  NXDKIT_ASSIGN(const ops::ModelDigest digest, ops::DigestModel(actors, run));
  synced.digest = manifest::DigestText(digest.digest);
  return OkStatus();
}

ops::ConvertRequest RequestFor(const SyncTarget& target, const std::string& label, int64_t number) {
  ops::ConvertRequest request;
  request.input = "the trainer";
  request.sync = false;  // weights can be made again
  if (!target.bundle.empty()) {
    request.to = &kinds::kRollout;
    request.output = target.bundle;
    request.place = ops::Slot{label};
    return request;
  }
  request.to = &kinds::kHf;
  request.output = JoinPath(target.folder, number % 2 == 0 ? "even" : "odd");
  request.options.dtype = target.dtype;
  request.force = true;
  return request;
}

// A folder is checked as an engine would see it, names, shapes and sizes, because engines do not
// check.
Status FinishFolder(const SyncTarget& target, const std::string& folder) {
  NXDKIT_TRY(WriteTextFiles(target.text, folder));
  NXDKIT_TRY(kinds::OpenAndBind(folder, &kinds::kHf, {}));
  return OkStatus();
}

// Writes the difference between the current version of a bundle elsewhere and the next.
Status WriteDelta(const ops::ConvertRequest& sync, const std::string& path) {
  ops::ConvertRequest request;
  request.source = sync.source;
  request.input = sync.input;
  request.run = sync.run;
  request.to = &kinds::kDelta;
  request.hints.Set("base", sync.output);
  request.output = path;
  request.force = true;
  request.sync = false;
  NXDKIT_TRY(ops::Convert(request));
  return OkStatus();
}

}  // namespace

Result<SyncedWeights> SyncWeights(MeshModel& actor, const DecoderConfig& config,
                                  const artifact::Artifact& base, const SyncTarget& target,
                                  const std::string& label, int64_t number,
                                  const artifact::RunOptions& run) {
  const auto memory = [&]() -> Result<artifact::BoundArtifact> {
    return BindTraining(base, config.model, actor.weights(), nullptr);
  };
  SyncedWeights synced;
  Stopwatch watch;
  NXDKIT_ASSIGN(artifact::BoundArtifact actors, memory());
  NXDKIT_TRY(Predict(target, std::move(actors), run, synced));
  synced.seconds["digest"] = watch.Lap();
  ops::ConvertRequest request = RequestFor(target, label, number);
  request.source = memory;
  request.run = run;
  const bool sends_delta = target.elsewhere != nullptr && !target.bundle.empty() &&
                           target.elsewhere->HasSent(target.bundle);
  const std::string delta = target.bundle + ".delta";
  if (sends_delta) NXDKIT_TRY(WriteDelta(request, delta));
  NXDKIT_ASSIGN(const ops::ConvertReport report, ops::Convert(request));
  synced.path = request.output;
  if (report.refreshed) {
    synced.version = report.refreshed->version;
  } else {
    synced.version.serial = number;
    synced.version.label = label;
    NXDKIT_TRY(FinishFolder(target, synced.path));
  }
  synced.seconds["write"] = watch.Lap();
  if (target.elsewhere == nullptr) return synced;
  if (sends_delta) {
    const Status sent = target.elsewhere->SendDelta(delta, target.bundle, label);
    NXDKIT_TRY(RemoveTree(delta));
    NXDKIT_TRY(sent);
  } else {
    NXDKIT_TRY(target.elsewhere->SendFolder(synced.path));
  }
  synced.seconds["send"] = watch.Lap();
  return synced;
}

}  // namespace nxdkit::trainer
