#include "formats/vllm_neuron/geometry.h"

#include <fmt/format.h>

#include "formats/models/view.h"
#include "formats/vllm_neuron/rank_tensors.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::vllm_neuron {
namespace {

constexpr std::string_view kFirstQkv = "model.layers.0.self_attn.qkv_proj_weight";

// Collects violations of rules.
class Rules {
 public:
  Rules(const models::ModelConfig& config, const Geometry& geometry)
      : config_(config), geometry_(geometry) {}

  std::vector<SizeFault> Faults() {
    Heads();
    KeyHeads();
    config_.experts > 0 ? Experts() : Dense();
    if (config_.vocab < geometry_.tp)
      Add("vocabulary",
          fmt::format("{} rows cannot be split over tp {}", config_.vocab, geometry_.tp),
          std::to_string(config_.vocab), fmt::format("{} or more", geometry_.tp), false);
    return std::move(faults_);
  }

 private:
  void Add(std::string check, std::string message, std::string found, std::string expected,
           bool has_layout) {
    faults_.push_back(
        {std::move(check), std::move(message), std::move(found), std::move(expected), has_layout});
  }
  void Advise(std::string check, std::string message, std::string found, std::string expected) {
    Add(std::move(check), std::move(message), std::move(found), std::move(expected), true);
    faults_.back().is_advice = true;
  }

  void Heads() {
    const int64_t cores = geometry_.cores();
    const std::string over =
        geometry_.attention_dp == 1
            ? fmt::format("tp {}", geometry_.tp)
            : fmt::format("tp {} times attention dp {}", geometry_.tp, geometry_.attention_dp);
    if (config_.heads % cores != 0)
      return Add("heads",
                 fmt::format("{} query heads cannot be split over {}", config_.heads, over),
                 std::to_string(config_.heads), fmt::format("a multiple of {}", cores), false);
    const int64_t each = config_.heads / cores;
    if (each % 2 != 0)
      Advise("heads",
             fmt::format("{} on each core ({} over {}): the vendor's porting guide "
                         "asks for an even number of query heads on a core; it is loaded anyway",
                         Counted(each, "query head"), config_.heads, over),
             std::to_string(each), "an even number");
  }

  // Only qwen3_moe's loader fills missing heads with zeros. That of the dense families asks for
  // rows past the end and gets none, and its last step compares shapes.
  void KeyHeads() {
    const int64_t kv = config_.kv_heads, tp = geometry_.tp;
    if (kv % tp == 0 || tp % kv == 0) return;
    const bool zeros = tp > kv && config_.experts > 0;
    std::string meaning;
    if (zeros) meaning = ", so query heads are paired with other heads' keys";
    if (tp > kv && !zeros) {
      const int64_t first = kv * (tp / kv);  // the rank that asks for a head past the end
      meaning = fmt::format(
          ", so the loader fails with an error on the shape of {} on rank{}", kFirstQkv,
          first + 1 == tp ? fmt::format(" {}", first) : fmt::format("s {} to {}", first, tp - 1));
    }
    Add("key heads",
        fmt::format("{} key heads and tp {}: neither divides the other{}", kv, tp, meaning),
        std::to_string(kv), fmt::format("a divisor or a multiple of {}", tp), zeros);
  }

  void Dense() {
    if (geometry_.ep > 1)
      Add("experts", fmt::format("a {} model has no experts to spread", config_.model_type), "0",
          fmt::format("a multiple of {}", geometry_.ep), false);
    Divides("intermediate", "intermediate size", config_.intermediate, geometry_.tp);
  }

  void Experts() {
    const int ep = geometry_.ep;
    if (geometry_.tp % ep != 0)
      return Add("experts", fmt::format("tp {} cannot be split over ep {}", geometry_.tp, ep),
                 std::to_string(geometry_.tp), fmt::format("a multiple of {}", ep), false);
    if (config_.experts % ep != 0)
      Add("experts",
          fmt::format("{} experts over ep {}: {} each, and the last {} are on no core",
                      config_.experts, ep, config_.experts / ep, config_.experts % ep),
          std::to_string(config_.experts), fmt::format("a multiple of {}", ep),
          config_.experts >= ep);
    Divides("intermediate", "the experts' intermediate size", config_.expert_intermediate,
            geometry_.tp / ep);
  }

  void Divides(const char* check, const char* what, int64_t extent, int64_t parts) {
    if (extent % parts == 0) return;
    Add(check, fmt::format("{} {} cannot be split over {} ranks", what, extent, parts),
        std::to_string(extent), fmt::format("a multiple of {}", parts), false);
  }

  const models::ModelConfig& config_;
  const Geometry& geometry_;
  std::vector<SizeFault> faults_;
};

// "llama, qwen3, qwen3_moe"
std::string KnownFamilies() {
  std::vector<std::string> names;
  for (const models::FamilyHead& head : models::BuiltInFamilies())
    if (const auto family = models::ParseFamily(models::BuiltInFamilyText(head.name), "");
        family.ok() && models::HasView(*family, kView))
      names.push_back(head.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Status CheckCores(const Geometry& geometry) {
  const int64_t cores = int64_t{geometry.tp} * geometry.attention_dp;
  if (cores <= kMostCores) return OkStatus();
  return BadUsage("{} cores are requested, the limit is {}", cores, kMostCores);
}

Core CoreOf(const Geometry& geometry, int number) {
  return {number / geometry.tp, number % geometry.tp};
}

std::string CoreText(const Geometry& geometry, int number) {
  const Core core = CoreOf(geometry, number);
  return geometry.attention_dp == 1 ? fmt::format("rank {}", core.rank)
                                    : fmt::format("dp {} rank {}", core.dp, core.rank);
}

std::string ParamKey(const Geometry& geometry, int core, std::string_view name) {
  const Core at = CoreOf(geometry, core);
  return fmt::format("dp{}:tp{}:{}", at.dp, at.rank, name);
}

std::optional<ParamPlace> ParseParamKey(std::string_view key) {
  ParamPlace place;
  for (const auto& [before, number] :
       {std::pair<std::string_view, int*>("dp", &place.core.dp), {"tp", &place.core.rank}}) {
    const size_t colon = key.find(':');
    if (!key.starts_with(before) || colon == key.npos) return std::nullopt;
    const std::optional<int> parsed =
        ParseNumber<int>(key.substr(before.size(), colon - before.size()));
    if (!parsed || *parsed < 0) return std::nullopt;
    *number = *parsed;
    key.remove_prefix(colon + 1);
  }
  place.name = key;
  return place;
}

std::string Assumed(const Geometry& geometry) {
  if (geometry.ep <= 1 || geometry.ep >= geometry.tp) return "";
  return fmt::format("rank r is assumed to be expert parallel rank r / {}",
                     geometry.tp / geometry.ep);
}

bool CutsKeysOverDp(const models::ModelConfig& config, const Geometry& geometry) {
  return geometry.attention_dp > 1 && config.kv_heads > geometry.tp &&
         config.kv_heads % geometry.cores() == 0;
}

std::vector<SizeFault> SizeFaults(const models::ModelConfig& config, const Geometry& geometry) {
  return Rules(config, geometry).Faults();
}

Status CheckKnown(const models::Model& model) {
  const models::ModelConfig& config = model.config;
  const bool known = models::HasView(*config.family, kView) && config.labels == 0 &&
                     config.heads > 0 && config.kv_heads > 0;
  if (!known)
    return Unsupported("how vLLM Neuron holds a {} model is not known", config.model_type)
        .hint(fmt::format("known from the 0.24 sources are {}", KnownFamilies()));
  if (config.experts == 0) return OkStatus();
  if (config.tied)
    return Unsupported("how vLLM Neuron holds a tied {} model is not known", config.model_type);
  for (int64_t layer = 0; layer < config.layers; ++layer)
    if (!config.IsSparse(layer))
      return Unsupported("layer {} has no experts: how vLLM Neuron holds one is not known", layer);
  return OkStatus();
}

}  // namespace nxdkit::vllm_neuron
