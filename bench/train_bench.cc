// train_bench MODEL TP THREADS DTYPE ROWS PROMPT RESPONSE [ROUNDS]: forward and backward of the
// trainer on random tokens; prints tokens per second, all tokens counted, and GFLOP/s. The peer is
// train_peer.py; train.sh runs both.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "formats/ops/artifact.h"
#include "trainer/actor/rows.h"
#include "trainer/comm/thread_world.h"
#include "trainer/model/decoder.h"
#include "trainer/model/memory.h"

using namespace nxdkit;
using namespace nxdkit::trainer;

namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Status Run(char** argv, int rounds) {
  const int tp = std::atoi(argv[2]);
  const int threads = std::atoi(argv[3]);
  const Dtype compute = std::string(argv[4]) == "bf16" ? Dtype::kBF16 : Dtype::kF32;
  NXDKIT_ASSIGN(const ops::BoundArtifact source, ops::OpenAndBind(argv[1], ops::Kind::kHf, {}));
  NXDKIT_ASSIGN(const DecoderConfig config,
                ParseDecoderConfig(source.artifact.config_text, source.artifact.config_path));
  std::mt19937 random(1);
  std::uniform_int_distribution<int32_t> token(0,
                                               static_cast<int32_t>(config.model.config.vocab) - 1);
  std::vector<Row> rows(static_cast<size_t>(std::atoi(argv[5])));
  std::vector<size_t> chosen;
  for (Row& row : rows) {
    for (int i = 0; i < std::atoi(argv[6]); ++i) row.prompt.push_back(token(random));
    for (int i = 0; i < std::atoi(argv[7]); ++i) row.response.push_back(token(random));
    chosen.push_back(chosen.size());
  }
  const Batch batch = PackRows(rows, chosen);
  ThreadWorld world(tp, threads);
  return world.Run([&](Comm& comm) -> Status {
    NXDKIT_ASSIGN(Decoder decoder,
                  Decoder::Make(config, {.compute = compute, .recompute = false}, comm));
    NXDKIT_TRY(LoadWeights(
        source, config.model,
        {{&decoder.table(), decoder.weights().bytes(), decoder.weights().dtype()}}, {}));
    decoder.weights().Changed();
    std::vector<float> log_probs(batch.targets.size()), gradient(batch.targets.size(), 0.01f);
    double best = 1e9, forward = 1e9;
    for (int round = 0; round < rounds; ++round) {
      const double start = Now();
      NXDKIT_TRY(decoder.Forward(batch, 1, true, log_probs, nullptr));
      const double middle = Now();
      NXDKIT_TRY(decoder.Backward(batch, gradient));
      best = std::min(best, Now() - start);
      forward = std::min(forward, middle - start);
    }
    if (comm.rank() != 0) return OkStatus();
    double params = 0;
    for (const models::Param& param : config.model.params)
      if (param.shape.size() == 2 && param.role != models::Role::kEmbedding)
        params += static_cast<double>(param.shape[0] * param.shape[1]);
    const double tokens = static_cast<double>(batch.ids.size());
    if (config.model.config.tied)  // the head, of the targets only
      params += static_cast<double>(config.model.config.vocab * config.model.config.hidden) *
                static_cast<double>(batch.targets.size()) / tokens;
    std::printf("%.0f tokens/s forward and backward, %.0f forward, %.0f GFLOP/s\n", tokens / best,
                tokens / forward, 6 * params * tokens / best / 1e9);
    return OkStatus();
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 8) {
    std::fprintf(stderr, "usage: train_bench MODEL TP THREADS f32|bf16 ROWS PROMPT RESPONSE [N]\n");
    return 2;
  }
  const Status status = Run(argv, argc > 8 ? std::atoi(argv[8]) : 5);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.error().ToString().c_str());
  return status.ok() ? 0 : 1;
}
