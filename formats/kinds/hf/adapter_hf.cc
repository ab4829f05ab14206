#include "formats/kinds/hf/read_hf.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "formats/adapter/lora_config.h"
#include "formats/hf/hf.h"
#include "formats/kinds/open_file.h"
#include "formats/kinds/table.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";

// What a tensor of the file is, by the end of its name: A or B, of a linear layer or an embedding.
struct Part {
  std::string_view end;
  bool is_a;
  bool embedding;
};
constexpr Part kParts[] = {{".lora_A.weight", true, false},
                           {".lora_B.weight", false, false},
                           {".lora_embedding_A", true, true},
                           {".lora_embedding_B", false, true}};

struct Named {
  const Part* part = nullptr;  // nullptr: a parameter as a whole
  std::string target;          // the base's: "model.layers.0.self_attn.q_proj.weight"
};

void Remove(std::string& text, std::string_view part) {
  const size_t at = text.find(part);
  if (at != std::string::npos) text.erase(at, part.size());
}

Result<Named> NameOf(std::string_view stored) {
  std::string name(stored.starts_with(kPrefix) ? stored.substr(kPrefix.size()) : stored);
  for (const Part& part : kParts)
    if (name.ends_with(part.end))
      return Named{&part, name.substr(0, name.size() - part.end.size()) + ".weight"};
  if (name.find(".lora_magnitude_vector") != std::string::npos)
    return Unsupported("a magnitude vector of DoRA, which scales the merged rows by their norms");
  if (name.find(".lora_") != std::string::npos)
    return Unsupported(
        "a tensor of an adapter of a kind that this program does not know; it would be lost");
  // PEFT's wrappers stand in the names of what it saves whole.
  for (std::string_view wrapper : {".modules_to_save.default", ".modules_to_save", ".base_layer"})
    Remove(name, wrapper);
  return Named{nullptr, std::move(name)};
}

class Binder {
 public:
  Binder(BoundArtifact& out, const LoraBase& base, nxd::LoraSharing sharing)
      : out_(out), base_(base), config_(out.lora->config), numbering_(base, out, sharing) {
    for (uint32_t i = 0; i < base.params->size(); ++i) index_.emplace((*base.params)[i].name, i);
  }

  Status Run() {
    for (const StoredTensor& stored : out_.artifact.files.front().tensors)
      NXDKIT_TRY(Place(stored).in(stored.storage->path()).on(stored.name));
    for (const auto& [target, pair] : pairs_)
      NXDKIT_TRY(AddPair(target, pair).in(out_.artifact.files.front().path));
    for (const auto& [target, stored] : wholes_)
      Bind(*stored, numbering_.AddWhole(target), stored->shape, false);
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
      return Unsupported("the base has no {}; what the adapter says of it would be lost",
                         named.target)
          .hint(fmt::format("is {} the adapter's base?", base_.path));
    if (!Info(stored.dtype).floating)
      return Unsupported("dtype {} found; adapters are floating point numbers", Name(stored.dtype));
    if (!named.part) return PlaceWhole(it->second, named.target, stored);
    Pair& pair = pairs_[it->second];
    const StoredTensor* there = pair.a ? pair.a : pair.b;
    const StoredTensor*& place = named.part->is_a ? pair.a : pair.b;
    if (place) there = place;
    if (place || (there && pair.embedding != named.part->embedding))
      return Corrupt("{} adapts the same parameter too", there->name);
    place = &stored;
    pair.embedding = named.part->embedding;
    return OkStatus();
  }

  Status PlaceWhole(uint32_t target, const std::string& name, const StoredTensor& stored) {
    const std::string module = name.substr(0, name.rfind('.'));
    const bool bias = name.ends_with(".bias") && config_.bias != lora::Bias::kNone;
    // PEFT saves the embedding beside its adapter, when the vocabulary may have grown.
    const bool embedding = stored.name.find(".base_layer.") != std::string::npos;
    if (!bias && !embedding && !config_.Saves(module))
      return Corrupt(
          "a parameter that neither modules_to_save nor bias of adapter_config.json says is in the "
          "adapter");
    if (stored.shape != param(target).shape)
      return Corrupt("shape {} found, {} expected", ShapeText(stored.shape),
                     ShapeText(param(target).shape));
    if (!wholes_.emplace(target, &stored).second)
      return Corrupt("{} is in the adapter under another name too", name);
    return OkStatus();
  }

  Status CheckShape(const StoredTensor& stored, const Shape& expected, size_t rank_dim,
                    int64_t rank) const {
    const Shape& found = stored.shape;
    if (found.size() == 2 && found[rank_dim] != rank &&
        found[1 - rank_dim] == expected[1 - rank_dim])
      return Corrupt("rank {} found, {} says {}", found[rank_dim], out_.lora->config_path, rank)
          .on(stored.name);
    if (found != expected)
      return Corrupt("shape {} found, {} expected: the base's weight is {}", ShapeText(found),
                     ShapeText(expected), ShapeText(expected))
          .on(stored.name);
    return OkStatus();
  }

  Status AddPair(uint32_t target, const Pair& pair) {
    const LogicalTensor& weight = param(target);
    const std::string module = ModuleOf(weight.name);
    if (!pair.a || !pair.b)
      return Corrupt("{} has no {}: an adapter is a pair", (pair.a ? pair.a : pair.b)->name,
                     pair.a ? "lora_B" : "lora_A")
          .on(module);
    if (weight.shape.size() != 2)
      return Unsupported("the base's weight is {}; adapters of matrices are supported",
                         ShapeText(weight.shape))
          .on(pair.a->name);
    if (!config_.targets_are_a_pattern && !config_.excluded_is_a_pattern && !config_.Names(module))
      return Corrupt(
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
    TensorLayout tensor = WholeTensor(stored.name, 0, number, shape);
    if (transposed) TransposeStored(tensor);
    out_.bound.Add(std::move(tensor), stored);
  }

  // A module that is adapted by the configuration and not in the file: the file was cut short, or
  // is another one's.
  Status CheckTargets() {
    if (config_.targets_are_a_pattern || config_.excluded_is_a_pattern) return OkStatus();
    for (uint32_t i = 0; i < base_.params->size(); ++i) {
      const std::string module = ModuleOf(param(i).name);
      if (module.empty() || param(i).shape.size() != 2 || pairs_.contains(i)) continue;
      if (!config_.Names(module) || config_.Saves(module)) continue;
      return Corrupt("{} names the module, but the adapter has no lora_A and lora_B of it",
                     out_.lora->config_path)
          .in(out_.artifact.files.front().path)
          .on(module);
    }
    for (const std::string& name : config_.targets)
      if (std::ranges::none_of(*base_.params, [&](const LogicalTensor& weight) {
            return lora::EndsIn(ModuleOf(weight.name), name);
          }))
        out_.artifact.warnings.push_back(
            fmt::format("{}: target_modules names {}, which the base does not have",
                        out_.lora->config_path, name));
    return OkStatus();
  }

  // The same for what is saved whole.
  Status CheckSaved() const {
    for (const std::string& name : config_.modules_to_save) {
      bool found = false;
      for (const auto& [target, stored] : wholes_)
        found |= lora::EndsIn(param(target).name.substr(0, param(target).name.rfind('.')), name);
      if (!found)
        return Corrupt("modules_to_save of {} names {}, but the adapter has no such parameter",
                       out_.lora->config_path, name)
            .in(out_.artifact.files.front().path);
    }
    if (config_.bias == lora::Bias::kNone) return OkStatus();
    for (uint32_t i = 0; i < base_.params->size(); ++i) {
      if (!param(i).name.ends_with(".bias") || wholes_.contains(i)) continue;
      const auto weight = index_.find(param(i).name.substr(0, param(i).name.size() - 4) + "weight");
      const bool adapted = weight != index_.end() && pairs_.contains(weight->second);
      if (config_.bias == lora::Bias::kLoraOnly && !adapted) continue;
      return Corrupt("bias is \"{}\", but the adapter does not have this one",
                     lora::BiasName(config_.bias))
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

Result<std::vector<std::string>> LoraFiles(const std::string& folder, const Looker& look) {
  std::vector<std::string> files;
  for (const char* name : {"adapter_model.safetensors", "adapter_model.bin", "adapter_model.pt"}) {
    NXDKIT_ASSIGN(const bool there, look.HasFile(folder, name));
    if (there) files.push_back(JoinPath(folder, name));
  }
  return files;
}

Result<std::string> LoraFile(const std::string& folder, const Looker& look) {
  NXDKIT_ASSIGN(const std::vector<std::string> files, LoraFiles(folder, look));
  return files.empty() ? std::string() : files.front();
}

Result<bool> LooksLikePeft(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool is_file, look.IsFile(path));
  if (is_file) return BaseName(path).starts_with("adapter_model.");
  NXDKIT_ASSIGN(const std::string file, LoraFile(path, look));
  NXDKIT_ASSIGN(const bool has_weights, hf::HasWeights(path, look));
  return !file.empty() && !has_weights;
}

Status BindPeft(BoundArtifact& out, const LoraBase& base, nxd::LoraSharing sharing,
                const InputHints&) {
  NXDKIT_ASSIGN(const bool is_file, out.artifact.look.IsFile(out.artifact.path));
  std::vector<std::string> files = {out.artifact.path};
  if (!is_file) NXDKIT_TRY(LoraFiles(out.artifact.path, out.artifact.look).To(files));
  if (files.size() > 1)
    return BadUsage("{} adapters are in the folder, and nothing says which counts: {} and {}",
                    files.size(), BaseName(files[0]), BaseName(files[1]))
        .in(out.artifact.path)
        .hint("name the file in the place of the folder; or keep one of them in it");
  const std::string& path = files.front();
  NXDKIT_ASSIGN(TensorFile file, OpenTensorFile(path));
  const bool archive = file.format.starts_with("torch");
  NXDKIT_ASSIGN(LoraConfigFile config, FindLoraConfig(archive ? path : "", {ParentPath(path)}));
  out.lora->config = std::move(config.config);
  out.lora->config_path = std::move(config.path);
  out.artifact.kind = &kHf;
  if (!is_file) out.artifact.folder = out.artifact.path;
  out.artifact.files.push_back(std::move(file));
  out.artifact.ranks.push_back({path, -1, -1});
  return Binder(out, base, sharing).Run();
}

}  // namespace nxdkit::kinds
