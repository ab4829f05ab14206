#include "trainer/learner/critic.h"

namespace nxdkit::trainer {

Result<std::unique_ptr<Critic>> Critic::Make(const DecoderConfig& config,
                                             const MeshOptions& options,
                                             const ops::BoundArtifact& source) {
  const auto forward = [](Decoder& decoder, const Batch& batch, bool keep, std::span<float> values,
                          float*) { return decoder.Scores(batch, keep, values); };
  std::unique_ptr<Critic> critic(new Critic());
  NXDKIT_TRY(critic->Start(config, options, source, forward));
  return critic;
}

Result<RowValues> Critic::Values(std::span<const Row> rows) {
  RowValues values;
  NXDKIT_TRY(Evaluate(rows, values, nullptr));
  return values;
}

}  // namespace nxdkit::trainer
