#include "trainer/loop/weight_sync.h"

#include "formats/manifest/manifest.h"
#include "formats/ops/digest/digest.h"

namespace nxdkit::trainer {

Result<SyncedWeights> SyncWeights(Actor& actor, const DecoderConfig& config,
                                  const ops::Artifact& base, const std::string& bundle,
                                  const std::string& label, const ops::RunOptions& run) {
  ops::ConvertRequest request;
  request.source = [&]() -> Result<ops::BoundArtifact> {
    return BindTraining(base, config.model, actor.weights(), nullptr);
  };
  request.input = "the trainer";
  request.to = ops::Kind::kRollout;
  request.output = bundle;
  request.into = true;
  request.label = label;
  request.sync = false;  // weights can be made again
  request.verify = true;
  request.run = run;
  NXDKIT_ASSIGN(const ops::ConvertReport report, ops::Convert(request));
  NXDKIT_ASSIGN(const ops::BoundArtifact written,
                ops::OpenAndBind(bundle, ops::Kind::kRollout, {}));
  NXDKIT_ASSIGN(const ops::ModelDigest digest, ops::DigestModel(written, run));
  return SyncedWeights{report.refreshed->version, manifest::DigestText(digest.digest)};
}

}  // namespace nxdkit::trainer
