// An adapter as PEFT saves it: one file of tensors, and what they mean in adapter_config.json.
#include <fmt/core.h>

#include <map>
#include <unordered_map>

#include "formats/artifact/lora/lora_config.h"
#include "formats/artifact/lora/lora_parts.h"
#include "formats/artifact/open_file.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";

// What a tensor of the file is, by the end of its name.
enum class Part : uint8_t { kA, kB, kEmbeddingA, kEmbeddingB, kWhole };
struct PartName {
  std::string_view end;
  Part part;
};
constexpr PartName kPartNames[] = {{".lora_A.weight", Part::kA},
                                   {".lora_B.weight", Part::kB},
                                   {".lora_embedding_A", Part::kEmbeddingA},
                                   {".lora_embedding_B", Part::kEmbeddingB}};

struct Named {
  Part part = Part::kWhole;
  std::string target;  // the parameter of the base: "model.layers.0.self_attn.q_proj.weight"
};

void Remove(std::string& text, std::string_view part) {
  const size_t at = text.find(part);
  if (at != std::string::npos) text.erase(at, part.size());
}

Result<Named> NameOf(std::string_view stored) {
  std::string name(stored.starts_with(kPrefix) ? stored.substr(kPrefix.size()) : stored);
  for (const auto& [end, part] : kPartNames)
    if (name.ends_with(end))
      return Named{part, name.substr(0, name.size() - end.size()) + ".weight"};
  if (name.find(".lora_magnitude_vector") != std::string::npos)
    return Error(Errc::kUnsupported,
                 "a magnitude vector of DoRA, which scales the merged rows by their norms");
  if (name.find(".lora_") != std::string::npos)
    return Error(Errc::kUnsupported,
                 "a tensor of an adapter of a kind that this program does not know; it would be "
                 "lost");
  // PEFT's wrappers stand in the names of what it saves whole.
  for (std::string_view wrapper : {".modules_to_save.default", ".modules_to_save", ".base_layer"})
    Remove(name, wrapper);
  return Named{Part::kWhole, std::move(name)};
}

class Binder {
 public:
  Binder(BoundArtifact& out, const LoraBase& base, nxd::LoraSharing sharing)
      : out_(out), base_(base), config_(out.lora->config), numbering_(base, out, sharing) {
    for (uint32_t i = 0; i < base.params->size(); ++i) index_.emplace((*base.params)[i].name, i);
  }

  Status Run() {
    for (const StoredTensor& stored : out_.artifact.files.front().tensors) {
      Status placed = Place(stored);
      if (!placed.ok()) return std::move(placed).error().in(stored.storage->path()).on(stored.name);
    }
    for (const auto& [target, pair] : pairs_) {
      Status added = AddPair(target, pair);
      if (!added.ok()) return std::move(added).error().in(out_.artifact.files.front().path);
    }
    for (const auto& [target, stored] : wholes_) AddWholeOf(target, *stored);
    NXDKIT_TRY(CheckTargets());
    return CheckSaved();
  }

 private:
  struct Pair {
    const StoredTensor* a = nullptr;
    const StoredTensor* b = nullptr;
    bool embedding = false;
  };

  const LogicalTensor& param(uint32_t target) const { return (*base_.params)[target]; }

  Status Place(const StoredTensor& stored) {
    NXDKIT_ASSIGN(const Named named, NameOf(stored.name));
    const auto it = index_.find(named.target);
    if (it == index_.end())
      return Error(Errc::kUnsupported,
                   fmt::format("the base has no {}; what the adapter says of it would be lost",
                               named.target))
          .hint(fmt::format("is {} the adapter's base?", base_.path));
    if (!Info(stored.dtype).floating)
      return Error(
          Errc::kUnsupported,
          fmt::format("dtype {} found; adapters are floating point numbers", Name(stored.dtype)));
    if (named.part == Part::kWhole) return PlaceWhole(it->second, named.target, stored);
    Pair& pair = pairs_[it->second];
    const bool embedding = named.part == Part::kEmbeddingA || named.part == Part::kEmbeddingB;
    const bool is_a = named.part == Part::kA || named.part == Part::kEmbeddingA;
    const StoredTensor*& place = is_a ? pair.a : pair.b;
    if (place || ((pair.a || pair.b) && pair.embedding != embedding))
      return Error(Errc::kCorrupt,
                   fmt::format("{} adapts the same parameter too", (place    ? place
                                                                    : pair.a ? pair.a
                                                                             : pair.b)
                                                                       ->name));
    place = &stored;
    pair.embedding = embedding;
    return OkStatus();
  }

  Status PlaceWhole(uint32_t target, const std::string& name, const StoredTensor& stored) {
    const std::string module = name.substr(0, name.rfind('.'));
    const bool bias = name.ends_with(".bias") && config_.bias != lora::Bias::kNone;
    // PEFT saves the embedding beside its adapter, when the vocabulary may have grown.
    const bool embedding = stored.name.find(".base_layer.") != std::string::npos;
    if (!bias && !embedding && !config_.Saves(module))
      return Error(Errc::kCorrupt,
                   "a parameter that neither modules_to_save nor bias of adapter_config.json says "
                   "is in the adapter");
    if (stored.shape != param(target).shape)
      return Error(Errc::kCorrupt,
                   fmt::format("shape {} found, {} expected", ShapeText(stored.shape),
                               ShapeText(param(target).shape)));
    if (!wholes_.emplace(target, &stored).second)
      return Error(Errc::kCorrupt,
                   fmt::format("{} is in the adapter under another name too", name));
    return OkStatus();
  }

  Status CheckShape(const StoredTensor& stored, const Shape& expected, size_t rank_dim,
                    int64_t rank) const {
    const Shape& found = stored.shape;
    if (found.size() == 2 && found[rank_dim] != rank &&
        found[1 - rank_dim] == expected[1 - rank_dim])
      return Error(Errc::kCorrupt, fmt::format("rank {} found, {} says {}", found[rank_dim],
                                               out_.lora->config_path, rank))
          .on(stored.name);
    if (found != expected)
      return Error(Errc::kCorrupt,
                   fmt::format("shape {} found, {} expected: the base's {} is {}", ShapeText(found),
                               ShapeText(expected), "weight", ShapeText(expected)))
          .on(stored.name);
    return OkStatus();
  }

  Status AddPair(uint32_t target, const Pair& pair) {
    const LogicalTensor& weight = param(target);
    const std::string module = ModuleOf(weight.name);
    if (!pair.a || !pair.b)
      return Error(Errc::kCorrupt,
                   fmt::format("{} has no {}: an adapter is a pair",
                               (pair.a ? pair.a : pair.b)->name, pair.a ? "lora_B" : "lora_A"))
          .on(module);
    if (weight.shape.size() != 2)
      return Error(Errc::kUnsupported,
                   fmt::format("the base's weight is {}; adapters of matrices are supported",
                               ShapeText(weight.shape)))
          .on(pair.a->name);
    if (!config_.targets_are_a_pattern && !config_.excluded_is_a_pattern && !config_.Names(module))
      return Error(Errc::kCorrupt,
                   "an adapter of a module that adapter_config.json does not name (target_modules, "
                   "exclude_modules, layers_to_transform)")
          .on(pair.a->name);
    const int64_t rank = config_.RankOf(module);
    const int64_t out = weight.shape[0];
    const int64_t in = weight.shape[1];
    // An embedding is its own transpose's layer: A [rank, vocabulary], B [hidden, rank].
    if (pair.embedding) {
      NXDKIT_TRY(CheckShape(*pair.a, {rank, out}, 0, rank));
      NXDKIT_TRY(CheckShape(*pair.b, {in, rank}, 1, rank));
    } else {
      NXDKIT_TRY(CheckShape(*pair.a, {rank, in}, 0, rank));
      NXDKIT_TRY(CheckShape(*pair.b, {out, rank}, 1, rank));
    }
    NXDKIT_TRY(numbering_.AddPair(target));
    const nxd::LoraPair& numbers = *out_.lora->pairs[target];
    Bind(pair.embedding ? *pair.b : *pair.a, numbers.a, {rank, in}, pair.embedding);
    Bind(pair.embedding ? *pair.a : *pair.b, numbers.b, {out, rank}, pair.embedding);
    return OkStatus();
  }

  void Bind(const StoredTensor& stored, uint32_t number, const Shape& shape, bool transposed) {
    TensorLayout tensor{stored.name, 0, shape, std::nullopt, {}, {}};
    AddWhole(tensor, number, shape);
    if (transposed) TransposeStored(tensor);
    out_.bound.layout.tensors.push_back(std::move(tensor));
    out_.bound.stored.push_back(stored);
  }

  void AddWholeOf(uint32_t target, const StoredTensor& stored) {
    Bind(stored, numbering_.AddWhole(target), stored.shape, false);
  }

  // A module that is adapted by the configuration and not in the file: the file was cut short, or
  // is another one's.
  Status CheckTargets() {
    if (config_.targets_are_a_pattern || config_.excluded_is_a_pattern) return OkStatus();
    for (uint32_t i = 0; i < base_.params->size(); ++i) {
      const std::string module = ModuleOf(param(i).name);
      if (module.empty() || param(i).shape.size() != 2 || pairs_.contains(i)) continue;
      if (!config_.Names(module) || config_.Saves(module)) continue;
      return Error(
                 Errc::kCorrupt,
                 fmt::format("{} names the module, but the adapter has no lora_A and lora_B of it",
                             out_.lora->config_path))
          .in(out_.artifact.files.front().path)
          .on(module);
    }
    for (const std::string& name : config_.targets)
      if (!AnyModule([&](const std::string& module) { return lora::EndsIn(module, name); }))
        out_.artifact.warnings.push_back(
            fmt::format("{}: target_modules names {}, which the base does not have",
                        out_.lora->config_path, name));
    return OkStatus();
  }

  bool AnyModule(const auto& fits) const {
    for (const LogicalTensor& weight : *base_.params)
      if (const std::string module = ModuleOf(weight.name); !module.empty() && fits(module))
        return true;
    return false;
  }

  // The same for what is saved whole.
  Status CheckSaved() const {
    for (const std::string& name : config_.modules_to_save) {
      bool found = false;
      for (const auto& [target, stored] : wholes_)
        found |= lora::EndsIn(param(target).name.substr(0, param(target).name.rfind('.')), name);
      if (!found)
        return Error(Errc::kCorrupt,
                     fmt::format("modules_to_save of {} names {}, but the adapter has no such "
                                 "parameter",
                                 out_.lora->config_path, name))
            .in(out_.artifact.files.front().path);
    }
    if (config_.bias == lora::Bias::kNone) return OkStatus();
    for (uint32_t i = 0; i < base_.params->size(); ++i) {
      if (!param(i).name.ends_with(".bias") || wholes_.contains(i)) continue;
      const auto weight = index_.find(param(i).name.substr(0, param(i).name.size() - 4) + "weight");
      const bool adapted = weight != index_.end() && pairs_.contains(weight->second);
      if (config_.bias == lora::Bias::kLoraOnly && !adapted) continue;
      return Error(Errc::kCorrupt,
                   fmt::format("bias is \"{}\", but the adapter does not have this one",
                               lora::BiasName(config_.bias)))
          .in(out_.artifact.files.front().path)
          .on(param(i).name);
    }
    return OkStatus();
  }

  BoundArtifact& out_;
  const LoraBase& base_;
  const lora::Config& config_;
  LoraNumbering numbering_;
  std::unordered_map<std::string, uint32_t> index_;  // of the base's parameters
  std::map<uint32_t, Pair> pairs_;                   // by target
  std::map<uint32_t, const StoredTensor*> wholes_;
};

}  // namespace

Status BindPeft(BoundArtifact& out, const LoraBase& base, nxd::LoraSharing sharing) {
  const std::string path = KindOf(out.artifact.path) == PathKind::kFile
                               ? out.artifact.path
                               : LoraFile(out.artifact.path);
  NXDKIT_ASSIGN(TensorFile file, OpenTensorFile(path));
  const bool archive = file.format.starts_with("torch");
  NXDKIT_ASSIGN(LoraConfigFile config, FindLoraConfig(archive ? path : "", {ParentPath(path)}));
  out.lora->config = std::move(config.config);
  out.lora->config_path = std::move(config.path);
  out.artifact.kind = Kind::kHf;
  out.artifact.files.push_back(std::move(file));
  out.artifact.ranks.push_back({path, -1, -1});
  return Binder(out, base, sharing).Run();
}

}  // namespace nxdkit::ops
