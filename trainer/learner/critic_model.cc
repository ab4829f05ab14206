#include "trainer/learner/critic_model.h"

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <utility>

#include "lib/base/errors.h"
#include "lib/json/json.h"
#include "trainer/base/rng.h"
#include "trainer/model/memory.h"

namespace nxdkit::trainer {
namespace {

constexpr char kCausal[] = "ForCausalLM";
constexpr char kTokens[] = "ForTokenClassification";

// The configuration of the same decoder with one score. No dropout: the trainer has none.
Result<Json> CriticConfig(const artifact::Artifact& artifact) {
  auto json = ParseJson(artifact.config_text, kLikePython);
  if (!json.ok()) return std::move(json).error().in(artifact.config_path);
  std::string architecture = artifact.config->family->architecture;
  const size_t end = architecture.rfind(kCausal);
  if (end != std::string::npos) architecture.resize(end);
  (*json)["architectures"] = {architecture + kTokens};
  (*json)["classifier_dropout"] = 0.0;
  (*json)["id2label"] = {{"0", "LABEL_0"}};
  (*json)["label2id"] = {{"LABEL_0", 0}};
  json->erase("num_labels");
  return json;
}

double InitializerRange(const Json& config) {
  constexpr double kDefault = 0.02;
  const Json* range = JsonFind(config, "initializer_range");
  const bool known = range && range->is_number() && std::isfinite(range->get<double>());
  return known ? range->get<double>() : kDefault;
}

// Normal numbers by position: Box and Muller.
std::vector<float> Normal(int64_t count, double deviation, uint64_t seed) {
  const PhiloxKey key = MakeKey(seed, RandomUse::kInit);
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    const PhiloxCounter words = Philox(
        {static_cast<uint32_t>(i), static_cast<uint32_t>(static_cast<uint64_t>(i) >> 32), 0, 0},
        key);
    const double radius = std::sqrt(-2 * std::log1p(-UniformDouble(words[0], words[1])));
    const double turn = 2 * std::numbers::pi * UniformDouble(words[2], words[3]);
    values.push_back(static_cast<float>(deviation * radius * std::cos(turn)));
  }
  return values;
}

// The tensors of the parameters that both models have, under their new numbers.
void KeepKnown(const models::Model& before, CriticModel& critic) {
  std::vector<std::optional<uint32_t>> now;
  for (const models::Param& param : before.params) {
    now.push_back(critic.config.model.Find(param.name));
    if (!now.back())
      critic.notes.push_back(fmt::format("{} of {} is left out: a critic has none", param.name,
                                         critic.source.artifact.path));
  }
  BoundLayout& bound = critic.source.bound;
  const BoundLayout all = std::exchange(bound, {});
  bound.layout.files = all.layout.files;
  for (size_t t = 0; t < all.stored.size(); ++t) {
    TensorLayout tensor = all.layout.tensors[t];
    std::erase_if(tensor.pieces, [&](const Piece& piece) { return !now[piece.param]; });
    if (tensor.pieces.empty()) continue;
    for (Piece& piece : tensor.pieces) piece.param = *now[piece.param];
    bound.layout.tensors.push_back(std::move(tensor));
    bound.stored.push_back(all.stored[t]);
  }
}

// Parameter i, the weight or bias of the score.
void AddScore(uint32_t i, double deviation, uint64_t seed, CriticModel& critic) {
  const models::Param& param = critic.config.model.params[i];
  const std::string& path = critic.source.artifact.path;
  const bool bias = param.shape.size() == 1;
  const int64_t count = static_cast<int64_t>(*ElementCount(param.shape));
  critic.notes.push_back(bias ? fmt::format("{} has no {}: it is 0", path, param.name)
                              : fmt::format("{} has no {}: drawn with seed {} and deviation {}",
                                            path, param.name, seed, deviation));
  BoundLayout& bound = critic.source.bound;
  TensorLayout layout{param.name,  static_cast<uint32_t>(bound.layout.files.size()),
                      param.shape, std::nullopt,
                      {},          {}};
  bound.layout.files.push_back({"a score that was made", -1, -1});
  AddWhole(layout, i, param.shape);
  bound.layout.tensors.push_back(std::move(layout));
  bound.stored.push_back({.name = param.name,
                          .shape = param.shape,
                          .strides = RowMajorStrides(param.shape),
                          .storage = StorageOf(bias ? std::vector<float>(static_cast<size_t>(count))
                                                    : Normal(count, deviation, seed))});
}

}  // namespace

Result<CriticModel> MakeCriticModel(artifact::BoundArtifact opened, uint64_t seed) {
  if (opened.base || opened.merged || opened.lora)
    return Unsupported("a critic starts from a complete model of its own")
        .in(opened.artifact.path)
        .hint("convert it to a Hugging Face folder first");
  CriticModel critic;
  artifact::Artifact& artifact = opened.artifact;
  NXDKIT_ASSIGN(const DecoderConfig before,
                ParseDecoderConfig(artifact.config_text, artifact.config_path));
  NXDKIT_ASSIGN(const Json config, CriticConfig(artifact));
  artifact.config_text = DumpPython(config) + "\n";
  NXDKIT_ASSIGN(critic.config, ParseDecoderConfig(artifact.config_text, artifact.config_path));
  artifact.config = critic.config.model.config;
  artifact.config_path.clear();
  critic.source = std::move(opened);
  KeepKnown(before.model, critic);
  const models::Model& model = critic.config.model;
  for (uint32_t i = 0; i < model.params.size(); ++i)
    if (model.params[i].role == models::Role::kScore && !before.model.Find(model.params[i].name))
      AddScore(i, InitializerRange(config), seed, critic);
  critic.source.model = model;
  critic.source.params = model.Logical();
  return critic;
}

}  // namespace nxdkit::trainer
