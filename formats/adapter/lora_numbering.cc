#include "formats/adapter/lora_numbering.h"

#include "lib/base/errors.h"

namespace nxdkit::adapter {

std::string ModuleOf(const std::string& weight) {
  constexpr std::string_view kEnd = ".weight";
  if (!weight.ends_with(kEnd)) return "";
  return weight.substr(0, weight.size() - kEnd.size());
}

LoraNumbering::LoraNumbering(const LoraBase& base, BoundArtifact& out, nxd::LoraSharing sharing)
    : base_(base), out_(out), sharing_(sharing) {
  out.lora->pairs.assign(base.params->size(), std::nullopt);
  out.lora->wholes.assign(base.params->size(), std::nullopt);
  out.lora->magnitudes.assign(base.params->size(), std::nullopt);
  out.lora->rows.assign(base.params->size(), std::nullopt);
  out.lora->sharing = sharing;
}

uint32_t LoraNumbering::Number(std::string name, Shape shape) {
  out_.params.push_back({std::move(name), std::move(shape), 0, 0});
  return static_cast<uint32_t>(out_.params.size() - 1);
}

Status LoraNumbering::AddPair(uint32_t target) {
  const LogicalTensor& param = (*base_.params)[target];
  if (base_.model && target >= base_.model->params.size())
    return Unsupported(
               "the family carries this tensor without knowing it: no adapter for it can be merged")
        .on(param.name);
  const std::string own = ModuleOf(param.name);
  std::optional<std::string> shared;
  if (base_.model) shared = nxd::LoraModule(base_.model->params[target], sharing_);
  const std::string module = shared.value_or(own);
  const lora::Config& config = out_.lora->config;
  const int64_t rank = config.RankOf(own);
  auto it = modules_.find(module);
  if (it == modules_.end()) {
    const uint32_t a = Number(module + ".lora_A.weight", {rank, param.shape[1]});
    it = modules_.emplace(module, Module{a, target}).first;
  }
  const std::string first = ModuleOf((*base_.params)[it->second.target].name);
  if (config.RankOf(first) != rank || config.ScaleOf(first) != config.ScaleOf(own))
    return Unsupported("rank {} and scale {} here, {} and {} of {}: {} has one adapter", rank,
                       config.ScaleOf(own), config.RankOf(first), config.ScaleOf(first), first,
                       module)
        .in(out_.lora->config_path)
        .on(own);
  const uint32_t b = Number(own + ".lora_B.weight", {param.shape[0], rank});
  out_.lora->pairs[target] = nxd::LoraPair{it->second.a, b, rank};
  return OkStatus();
}

uint32_t LoraNumbering::AddWhole(uint32_t target) {
  const LogicalTensor& param = (*base_.params)[target];
  const auto number = static_cast<uint32_t>(out_.params.size());
  out_.params.push_back(param);
  out_.lora->wholes[target] = number;
  return number;
}

uint32_t LoraNumbering::AddMagnitude(uint32_t target) {
  const LogicalTensor& param = (*base_.params)[target];
  const uint32_t number =
      Number(ModuleOf(param.name) + ".lora_magnitude_vector", {param.shape.front()});
  out_.lora->magnitudes[target] = number;
  return number;
}

uint32_t LoraNumbering::AddRows(uint32_t target, std::vector<int64_t> rows) {
  const LogicalTensor& param = (*base_.params)[target];
  const uint32_t number = Number(ModuleOf(param.name) + ".trainable_tokens_delta",
                                 {static_cast<int64_t>(rows.size()), param.shape.back()});
  out_.lora->rows[target] = LoraRows{number, std::move(rows)};
  return number;
}

}  // namespace nxdkit::adapter
