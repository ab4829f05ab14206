#include "trainer/loop/weight_sync.h"

#include "formats/manifest/manifest.h"
#include "formats/ops/digest/digest.h"
#include "lib/tensor/dtype.h"

namespace nxdkit::trainer {
namespace {

// Of the weights that the bundle takes; nullopt: as they are.
Result<std::optional<Dtype>> BundleDtype(const std::string& bundle) {
  NXDKIT_ASSIGN(const ops::Artifact opened, ops::OpenArtifact(bundle, ops::Kind::kRollout, {}));
  const std::optional<rollout::NeuronConfig>& config = opened.bundle->config;
  return config ? DtypeFromTorchName(config->torch_dtype) : std::nullopt;
}

}  // namespace

Result<SyncedWeights> SyncWeights(MeshModel& actor, const DecoderConfig& config,
                                  const ops::Artifact& base, const std::string& bundle,
                                  const std::string& label, const ops::RunOptions& run) {
  const auto memory = [&]() -> Result<ops::BoundArtifact> {
    return BindTraining(base, config.model, actor.weights(), nullptr);
  };
  ops::ConvertRequest request;
  request.source = memory;
  request.input = "the trainer";
  request.to = ops::Kind::kRollout;
  request.output = bundle;
  request.place = ops::Slot{label};
  request.sync = false;  // weights can be made again
  request.run = run;
  NXDKIT_ASSIGN(const std::optional<Dtype> dtype, BundleDtype(bundle));
  NXDKIT_ASSIGN(ops::BoundArtifact actors, memory());
  actors.own_dtypes.assign(actors.params.size(), dtype);
  NXDKIT_ASSIGN(const ops::ModelDigest digest, ops::DigestModel(actors, run));
  NXDKIT_ASSIGN(const ops::ConvertReport report, ops::Convert(request));
  return SyncedWeights{report.refreshed->version, manifest::DigestText(digest.digest)};
}

}  // namespace nxdkit::trainer
