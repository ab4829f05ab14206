#include "trainer/learner/actor.h"

namespace nxdkit::trainer {

Result<std::unique_ptr<Actor>> Actor::Make(const DecoderConfig& config, const ActorOptions& options,
                                           const ops::BoundArtifact& source) {
  const auto forward = [temperature = options.temperature](Decoder& decoder, const Batch& batch,
                                                           bool keep, std::span<float> log_probs,
                                                           float* entropies) {
    return decoder.Forward(batch, temperature, keep, log_probs, entropies);
  };
  std::unique_ptr<Actor> actor(new Actor());
  NXDKIT_TRY(actor->Start(config, options, source, forward));
  return actor;
}

Result<RowLogProbs> Actor::LogProbs(std::span<const Row> rows) {
  RowLogProbs out;
  NXDKIT_TRY(Evaluate(rows, out.log_probs, &out.entropies));
  return out;
}

}  // namespace nxdkit::trainer
