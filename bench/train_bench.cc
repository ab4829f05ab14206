// train_bench MODEL TP THREADS DTYPE ROWS-FILE [ROUNDS]: forward and backward of the trainer on the
// rows of a file (train_rows.py) in micro-batches of up to 4096 tokens; prints tokens of these rows
// per CPU second and per second, best of the rounds. The peer is train_peer.py; train.sh runs both.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "formats/artifact/bound.h"
#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "trainer/comm/comm.h"
#include "trainer/learner/rows.h"
#include "trainer/model/decoder.h"
#include "trainer/model/memory.h"

using namespace nxdkit;
using namespace nxdkit::trainer;

namespace {

constexpr int64_t kMaxTokens = 4096;

struct Clock {
  double wall =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  double cpu = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;  // all threads together
};

std::vector<Row> ReadRows(const char* path) {
  std::vector<Row> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t tab = line.find('\t');
    Row& row = rows.emplace_back();
    std::istringstream prompt(line.substr(0, tab)), response(line.substr(tab + 1));
    for (int32_t id; prompt >> id;) row.prompt.push_back(id);
    for (int32_t id; response >> id;) row.response.push_back(id);
  }
  return rows;
}

Status Run(char** argv, int rounds) {
  const int tp = std::atoi(argv[2]);
  const int threads = std::atoi(argv[3]);
  const Dtype compute = std::string(argv[4]) == "bf16" ? Dtype::kBF16 : Dtype::kF32;
  NXDKIT_ASSIGN(const ops::BoundArtifact source, ops::OpenAndBind(argv[1], &ops::kHf, {}));
  NXDKIT_ASSIGN(const DecoderConfig config,
                ParseDecoderConfig(source.artifact.config_text, source.artifact.config_path));
  const std::vector<Row> rows = ReadRows(argv[5]);
  double tokens = 0;
  for (const Row& row : rows) tokens += static_cast<double>(row.tokens());
  std::vector<size_t> all(rows.size());
  std::iota(all.begin(), all.end(), size_t{0});
  std::vector<Batch> batches;
  for (const std::vector<size_t>& micro : MicroBatches(rows, all, kMaxTokens, 0))
    batches.push_back(PackRows(rows, micro));
  ThreadWorld world(tp, threads);
  return world.Run([&](Comm& comm) -> Status {
    NXDKIT_ASSIGN(Decoder decoder,
                  Decoder::Make(config, {.compute = compute, .recompute = false}, comm));
    NXDKIT_TRY(LoadWeights(
        source, config.model,
        {{&decoder.table(), decoder.weights().bytes(), decoder.weights().dtype()}}, {}));
    decoder.weights().Changed();
    Clock best{1e9, 1e9};
    for (int round = 0; round < rounds; ++round) {
      NXDKIT_TRY(comm.Barrier());
      const Clock start;
      for (const Batch& batch : batches) {
        std::vector<float> log_probs(batch.targets.size()), gradient(batch.targets.size(), 0.01f);
        NXDKIT_TRY(decoder.Forward(batch, 1, true, log_probs, nullptr));
        NXDKIT_TRY(decoder.Backward(batch, gradient));
      }
      NXDKIT_TRY(comm.Barrier());
      const Clock end;
      best = {std::min(best.wall, end.wall - start.wall), std::min(best.cpu, end.cpu - start.cpu)};
    }
    if (comm.rank() == 0)
      std::printf("ours: %.0f tokens per CPU second, %.0f tokens per second\n", tokens / best.cpu,
                  tokens / best.wall);
    return OkStatus();
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr, "usage: train_bench MODEL TP THREADS f32|bf16 ROWS-FILE [ROUNDS]\n");
    return 2;
  }
  const Status status = Run(argv, argc > 6 ? std::atoi(argv[6]) : 5);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.error().ToString().c_str());
  return status.ok() ? 0 : 1;
}
