#include "formats/ops/inspect/training.h"

#include <fmt/core.h>

#include <map>
#include <set>

#include "formats/adapter/lora_config.h"
#include "formats/kinds/hf/read_hf.h"
#include "formats/kinds/open_file.h"
#include "formats/kinds/torch/facts_torch.h"
#include "formats/lora/peft_types.h"
#include "formats/lora/read_config.h"
#include "formats/models/model.h"
#include "formats/nxd/shards_in.h"
#include "lib/base/checked.h"
#include "lib/json/json.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/paths.h"

namespace nxdkit::ops {
namespace {

constexpr size_t kMaxTargets = 1000;

std::string TextOf(const Json& json, std::string_view key) {
  const Json* value = JsonFind(json, key);
  return value && value->is_string() ? value->get<std::string>() : "";
}

// PEFT writes a list, or one string that is a pattern.
std::vector<std::string> TextsOf(const Json& json, std::string_view key) {
  const Json* value = JsonFind(json, key);
  if (value && value->is_string()) return {value->get<std::string>()};
  std::vector<std::string> out;
  if (value && value->is_array())
    for (const Json& item : *value)
      if (item.is_string() && out.size() < kMaxTargets) out.push_back(item.get<std::string>());
  return out;
}

AdapterFacts ReadAdapterConfig(const Json& config) {
  AdapterFacts facts;
  facts.type = TextOf(config, "peft_type");
  facts.base_model = TextOf(config, "base_model_name_or_path");
  facts.targets = TextsOf(config, "target_modules");
  // NxD calls it lora_rank.
  for (const char* key : {"r", "lora_rank"})
    if (const Result<int64_t> rank = JsonInt(config, key); rank.ok() && !facts.rank)
      facts.rank = *rank;
  if (const Result<double> alpha = JsonDouble(config, "lora_alpha"); alpha.ok())
    facts.alpha = *alpha;
  return facts;
}

// The rank that the configuration gives for a tensor's module.
std::optional<int64_t> RankOf(const std::string& tensor, const Result<lora::Config>& config,
                              const AdapterFacts& facts) {
  std::string_view module = std::string_view(tensor).substr(0, tensor.find(".lora_"));
  constexpr std::string_view kOuter = "base_model.model.";
  if (module.starts_with(kOuter)) module.remove_prefix(kOuter.size());
  return config.ok() ? config->RankOf(module) : facts.rank;
}

// Checks A [r, in] and B [out, r] of each module.
void CheckPairs(Inspection& inspection, const Result<lora::Config>& config, AdapterFacts& facts) {
  std::map<std::string, const StoredTensor*> by_name;
  for (const StoredTensor& tensor : inspection.artifact.files.front().tensors)
    by_name[tensor.name] = &tensor;
  const auto warn = [&](const std::string& text) { inspection.warnings.push_back(text); };
  size_t others = 0;
  std::string first_other;
  constexpr std::string_view kA = ".lora_A.", kB = ".lora_B.";
  for (const auto& [name, a] : by_name) {
    const size_t at = name.find(kA);
    if (at == std::string::npos) continue;
    const std::string other = std::string(name).replace(at, kA.size(), kB);
    const auto b = by_name.find(other);
    if (b == by_name.end()) {
      // NxD's fused projections have one A for q, k and v, and a B under another name for each.
      const std::string prefix = other.substr(0, at + kB.size());
      if (by_name.lower_bound(prefix) == by_name.end() ||
          !by_name.lower_bound(prefix)->first.starts_with(prefix))
        warn(fmt::format("{} has no {}", name, other));
      continue;
    }
    const Shape& first = a->shape;
    const Shape& second = b->second->shape;
    if (first.size() < 2 || second.size() < 2 || first[0] != second[1])
      warn(fmt::format("{} {} and {} {} do not multiply", name, ShapeText(first), other,
                       ShapeText(second)));
    else if (const auto rank = RankOf(name, config, facts); rank && first[0] != *rank) {
      if (others++ == 0)
        first_other =
            fmt::format("{} has rank {}, adapter_config.json says {}", name, first[0], *rank);
    } else
      ++facts.pairs;
  }
  if (others == 1) warn(first_other);
  if (others > 1) warn(fmt::format("{} tensors have other ranks: {}", others, first_other));
}

// The kind of adapter, and the reason if it cannot be merged.
void DescribeAdapter(Inspection& inspection, const AdapterFacts& facts,
                     const Result<lora::Config>& config) {
  const lora::PeftType* const type = lora::FindPeftType(facts.type);
  const bool other = type && type->form != lora::PeftForm::kLora;
  inspection.form = other ? "peft_adapter" : "lora_adapter";
  inspection.description =
      other ? lora::PeftTypeText(*type) + ", which is not a LoRA adapter"
      : config.ok()
          ? "LoRA adapter: nxd-convert --merge-lora adds it to its base, which is not here"
          : "LoRA adapter: only the changes to a model, which is not here";
  if (!config.ok())
    inspection.warnings.push_back(
        fmt::format("it cannot be merged: {}{}{}", config.error().ToString(),
                    config.error().hint().empty() ? "" : "; ", config.error().hint()));
}

}  // namespace

Result<bool> LooksLikeAdapter(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool has_config, look.HasFile(path, kLoraConfigFile));
  NXDKIT_ASSIGN(const std::string file, LoraFile(path, look));
  return has_config && !file.empty();
}

Status InspectAdapter(Inspection& inspection, const InspectRequest& request) {
  inspection.not_checked = "an adapter is not a whole model";
  inspection.artifact.path = request.path;
  const std::string path = JoinPath(request.path, kLoraConfigFile);
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, models::kMaxConfigBytes));
  NXDKIT_ASSIGN(const Json json, ParseJson(text, kLikePython).in(path));
  AdapterFacts facts = ReadAdapterConfig(json);
  const Result<lora::Config> config = lora::ParseConfig(text, path);
  DescribeAdapter(inspection, facts, config);
  NXDKIT_ASSIGN(const std::vector<std::string> files, LoraFiles(request.path));
  if (files.size() > 1)
    inspection.warnings.push_back(
        fmt::format("{}: there are {} adapters in the folder; this one is shown, and a conversion "
                    "asks which one to use",
                    files.front(), files.size()));
  NXDKIT_ASSIGN(TensorFile file, OpenTensorFile(files.front()));
  inspection.artifact.files.push_back(std::move(file));
  inspection.artifact.ranks.push_back({inspection.artifact.files.front().path, -1, -1});
  CheckPairs(inspection, config, facts);
  inspection.adapter = std::move(facts);
  return OkStatus();
}

Status InspectOptimizer(Inspection& inspection, const InspectRequest& request) {
  inspection.form = "nxd_optimizer";
  inspection.not_checked = "the state of an optimizer, without weights";
  inspection.artifact.path = request.path;
  OptimizerFacts& facts = inspection.optimizer.emplace();
  NXDKIT_ASSIGN(const std::vector<nxd::ShardFile> shards, nxd::OptimizerFilesIn(request.path));
  for (const nxd::ShardFile& shard : shards) {
    if (request.poll) NXDKIT_TRY(request.poll());
    facts.dp = std::max(facts.dp, shard.dp + 1);
    facts.tp = std::max(facts.tp, shard.tp + 1);
    facts.pp = std::max(facts.pp, shard.pp + 1);
    facts.ep = std::max(facts.ep, shard.ep + 1);
    ++facts.files;
    Result<TensorFile> read = ReadTreeOfTensors(shard.path);
    if (!read.ok() && read.error().code() != Errc::kUnsupported) return std::move(read).error();
    if (!read.ok())
      inspection.warnings.push_back("the tensors cannot be shown: " + read.error().ToString());
    TensorFile file = read.ok() ? *std::move(read) : TensorFile{shard.path, "", 0, {}, {}};
    for (const StoredTensor& tensor : file.tensors)
      facts.zero1 |= tensor.name.starts_with("base_state.");
    inspection.artifact.files.push_back(std::move(file));
    inspection.artifact.ranks.push_back({shard.path, shard.tp, shard.pp});
  }
  // Rank counts may be a million each, so that the product of four may overflow.
  std::optional<uint64_t> grid = uint64_t{1};
  for (const int size : {facts.dp, facts.tp, facts.pp, facts.ep})
    if (grid) grid = CheckedMul(*grid, static_cast<uint64_t>(size));
  facts.missing = grid.value_or(~uint64_t{0}) - facts.files;
  facts.zero1 |= facts.dp > 1;
  inspection.description = facts.zero1
                               ? "state of an NxD optimizer, cut over data parallel ranks (ZeRO-1)"
                               : "state of an NxD optimizer";
  if (facts.missing > 0)
    inspection.warnings.push_back(
        fmt::format("{} of the {} files of dp {}, tp {}, pp {} are missing", facts.missing,
                    facts.missing + facts.files, facts.dp, facts.tp, facts.pp));
  return OkStatus();
}

Status DescribeTrainer(Inspection& inspection, const std::string& folder) {
  TrainerFacts facts;
  bool any = false;
  const auto read = [&](const char* name) -> Result<std::optional<Json>> {
    const std::string path = JoinPath(folder, name);
    NXDKIT_ASSIGN(const bool there, IsFile(path));
    if (!there) return std::optional<Json>();
    Result<Json> json = ReadJsonFile(path, models::kMaxConfigBytes, kLikePython);
    any = true;
    if (json.ok() && json->is_object()) return std::optional<Json>(*std::move(json));
    inspection.warnings.push_back(json.ok() ? path + " is not a JSON object"
                                            : json.error().ToString());
    return std::optional<Json>();
  };
  NXDKIT_ASSIGN(const auto config, read("trn_config.json"));
  NXDKIT_ASSIGN(const auto state, read("trainer_state.json"));
  if (config)
    for (const auto& [key, value] : config->items())
      facts.settings.push_back({key, JsonExcerpt(value)});
  if (state) {
    if (const Result<int64_t> step = JsonInt(*state, "global_step"); step.ok()) facts.step = *step;
    if (const Result<double> epoch = JsonDouble(*state, "epoch"); epoch.ok()) facts.epoch = *epoch;
  }
  if (!any) return OkStatus();
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListIfThere(JoinPath(folder, "shards")));
  for (const std::string& name : names)
    if (name.starts_with("mp_metadata_pp_rank_")) facts.metadata.push_back(name);
  inspection.trainer = std::move(facts);
  return OkStatus();
}

}  // namespace nxdkit::ops
