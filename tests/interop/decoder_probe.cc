// decoder_probe TP COMPUTE MODEL BATCH OUTPUT: runs the trainer's decoder on the model folder and
// writes log-probabilities and entropies, or for a model with a score head the scores, and the
// gradient of every parameter.
//
// BATCH is JSON: {"ids": [[...], ...], "targets": [[token, label], ...], "gradient": [...],
// "temperature": t}; tokens count through all sequences. OUTPUT holds records: name, a line feed,
// number of floats, a line feed, the floats.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "formats/ops/verify/compare.h"
#include "tests/trainer/model/batch_json.h"
#include "tests/trainer/model/whole.h"
#include "trainer/comm/comm.h"
#include "trainer/model/decoder.h"
#include "trainer/model/memory.h"

using namespace nxdkit;
using namespace nxdkit::trainer;

namespace {

struct Output {
  std::mutex mutex;
  std::map<std::string, std::vector<float>> records;
};

// Adds the rank's share of every gradient to the whole.
void Collect(const DecoderConfig& config, Decoder& decoder, Output& output) {
  const std::scoped_lock lock(output.mutex);
  for (const Slot& slot : decoder.table().slots) {
    const models::Param& param = config.model.params[slot.param];
    std::vector<float>& whole = output.records[param.name];
    whole.resize(static_cast<size_t>(*ElementCount(param.shape)));
    for (int64_t i = 0; i < slot.size(); ++i)
      whole[static_cast<size_t>(PlaceInWhole(slot, param.shape, i))] =
          decoder.gradients()[static_cast<size_t>(slot.offset + i)];
  }
}

Status Run(int tp, Dtype compute, const std::string& model, const nlohmann::json& json,
           Output& output) {
  NXDKIT_ASSIGN(const ops::BoundArtifact source, ops::OpenAndBind(model, &ops::kHf, {}));
  NXDKIT_ASSIGN(const DecoderConfig config,
                ParseDecoderConfig(source.artifact.config_text, source.artifact.config_path));
  NXDKIT_TRY(ops::RequireSound(source, {}));  // as a run does
  const Batch batch = ReadBatch(json);
  const auto gradient = json.at("gradient").get<std::vector<float>>();
  const float temperature = json.at("temperature").get<float>();
  return ThreadWorld(tp).Run([&](Comm& world) -> Status {
    NXDKIT_ASSIGN(Decoder decoder, Decoder::Make(config, {.compute = compute}, world));
    NXDKIT_TRY(LoadWeights(
        source, config.model,
        {{&decoder.table(), decoder.weights().bytes(), decoder.weights().dtype()}}, {}));
    decoder.weights().Changed();
    const bool scores = config.model.config.labels > 0;
    std::vector<float> outputs(batch.targets.size()), entropies(batch.targets.size());
    NXDKIT_TRY(decoder.Forward(batch, temperature, true, outputs, entropies.data()));
    NXDKIT_TRY(decoder.Backward(batch, gradient));
    NXDKIT_TRY(decoder.SumPartialGradients({0, decoder.table().size}));
    Collect(config, decoder, output);
    const std::scoped_lock lock(output.mutex);
    output.records[scores ? "scores" : "log_probs"] = outputs;
    if (!scores) output.records["entropies"] = entropies;
    return OkStatus();
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  std::ifstream in(argv[4]);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  Output output;
  const Dtype compute = std::string(argv[2]) == "bf16" ? Dtype::kBF16 : Dtype::kF32;
  const Status status =
      Run(std::stoi(argv[1]), compute, argv[3], nlohmann::json::parse(text), output);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.error().ToString().c_str());
    return 1;
  }
  std::ofstream out(argv[5], std::ios::binary);
  for (const auto& [name, values] : output.records) {
    out << name << "\n" << values.size() << "\n";
    out.write(reinterpret_cast<const char*>(values.data()),
              static_cast<std::streamsize>(values.size() * sizeof(float)));
  }
  return out.flush() ? 0 : 1;
}
