#include "formats/kinds/bind.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "formats/kinds/quantised.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/json/json_parse.h"

namespace nxdkit::kinds {

NameMap ByName(std::vector<TensorLayout> tensors) {
  NameMap map;
  map.reserve(tensors.size());
  for (TensorLayout& tensor : tensors) {
    std::string name = tensor.name;
    map.emplace(std::move(name), std::move(tensor));
  }
  return map;
}

namespace {

// Tensors that trainers add to a model, and that are not weights of it: TRL's value head.
bool IsBeside(std::string_view name) { return name.starts_with("v_head."); }

std::set<std::string> BuffersOf(const TensorFile& file) {
  std::set<std::string> names;
  const auto said =
      std::ranges::find(file.metadata, kBuffersKey, &std::pair<std::string, std::string>::first);
  if (said == file.metadata.end()) return names;
  const Result<Json> list = ParseJson(said->second);
  if (!list.ok() || !list->is_array()) return names;
  for (const Json& name : *list)
    if (name.is_string()) names.insert(name.get<std::string>());
  return names;
}

}  // namespace

std::string BuffersText(const BoundArtifact& source, const std::vector<std::string>& names) {
  Json list = Json::array();
  for (const std::string& name : names)
    if (std::ranges::count(source.carried, name) > 0 && !models::IsCarried(*source.model, name))
      list.push_back(name);
  return list.empty() ? "" : list.dump();
}

uint32_t AddCarried(BoundArtifact& out, const std::string& name, const Shape& shape) {
  const auto number = static_cast<uint32_t>(out.params.size());
  out.carried.push_back(name);
  out.params.push_back({name, shape, 0, 0});
  return number;
}

Unwrapping UnwrapFiles(Artifact& artifact, size_t first, size_t last, const NameMap& known) {
  std::vector<std::string_view> names;
  for (size_t f = first; f < last; ++f)
    for (const StoredTensor& stored : artifact.files[f].tensors) names.push_back(stored.name);
  Unwrapping found = FindUnwrapping(
      names, [&known](std::string_view name) { return known.contains(std::string(name)); });
  std::string text = found.changes ? found.Text() : "";
  if (!text.empty() && std::ranges::find(artifact.warnings, text) == artifact.warnings.end())
    artifact.warnings.push_back(std::move(text));
  return found;
}

Status BindFile(BoundArtifact& out, uint32_t file, const NameMap& known,
                const Unwrapping& unwrapping) {
  out.bound.stored.reserve(out.artifact.tensor_count());
  out.bound.layout.tensors.reserve(out.artifact.tensor_count());
  const std::set<std::string> buffers = BuffersOf(out.artifact.files[file]);
  for (const StoredTensor& stored : out.artifact.files[file].tensors) {
    const std::string name = unwrapping.NameOf(stored.name);
    const auto it = known.find(name);
    if (it != known.end()) {
      out.bound.Add(it->second, stored);
      out.bound.layout.tensors.back().file = file;
      continue;
    }
    if (models::IsCarried(*out.model, name) || buffers.contains(stored.name)) {
      const uint32_t number = AddCarried(out, name, stored.shape);
      out.bound.Add(WholeTensor(name, file, number, stored.shape), stored);
      continue;
    }
    if (models::IsIgnorable(*out.model->config.family, name) || IsBeside(name)) {
      out.left_out.push_back(stored.name);
      continue;
    }
    NXDKIT_TRY(CheckNotQuantised(out.artifact, stored.name, out.artifact.files[file].path));
    return Unsupported("the {} family has no such tensor in this layout; it would be lost",
                       out.model->config.family->model_type)
        .in(out.artifact.files[file].path)
        .on(stored.name);
  }
  return OkStatus();
}

Status RequireFamily(BoundArtifact& out) {
  if (out.artifact.config_fault) return *out.artifact.config_fault;
  if (!out.artifact.config)
    return NotFound("no config.json: the shapes alone do not determine heads, layers and family")
        .in(out.artifact.path)
        .hint("name one with --config");
  NXDKIT_ASSIGN(out.model, MakeModel(*out.artifact.config).in(out.artifact.config_path));
  out.params = out.model->Logical();
  return OkStatus();
}

void WarnOfConfig(Artifact& artifact) {
  if (artifact.config_fault)
    artifact.warnings.push_back(artifact.config_fault->ToString() +
                                "; without it every tensor counts as a parameter of its own");
}

Status CheckCarriedOnce(const BoundArtifact& out) {
  std::vector<std::string> names = out.carried;
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return OkStatus();
  return Corrupt("the tensor is there twice").in(out.artifact.path).on(*twice);
}

namespace {

// Removes `count` parameters from `first` on, and their stored tensors, and renumbers the
// parameters after them; returns the new place of every stored tensor that stays.
std::vector<size_t> DropParams(BoundArtifact& out, uint32_t first, uint32_t count) {
  std::vector<size_t> places(out.bound.stored.size());
  size_t kept = 0;
  for (size_t t = 0; t < out.bound.stored.size(); ++t) {
    places[t] = kept;
    TensorLayout& tensor = out.bound.layout.tensors[t];
    const uint32_t param = tensor.pieces.empty() ? 0 : tensor.pieces.front().param;
    if (param >= first && param < first + count) continue;
    for (Piece& piece : tensor.pieces)
      if (piece.param >= first) piece.param -= count;
    if (kept != t) {
      out.bound.layout.tensors[kept] = std::move(tensor);
      out.bound.stored[kept] = std::move(out.bound.stored[t]);
    }
    ++kept;
  }
  out.bound.layout.tensors.resize(kept);
  out.bound.stored.resize(kept);
  out.params.erase(out.params.begin() + first, out.params.begin() + first + count);
  return places;
}

}  // namespace

void LeaveCarried(BoundArtifact& out) {
  if (out.carried.empty()) return;
  const auto own = static_cast<uint32_t>(out.model->params.size());
  const auto count = static_cast<uint32_t>(out.carried.size());
  const std::vector<size_t> places = DropParams(out, own, count);
  for (RunTensor& tensor : out.run) tensor.param -= count;
  if (out.optimizer) {
    BoundOptimizer& optimizer = *out.optimizer;
    optimizer.entries.resize(own);
    optimizer.masters.resize(own);
    optimizer.group_of.resize(own);
    if (optimizer.options.size() > own) optimizer.options.resize(own);
    const auto move = [&](OptimizerEntry& entry) {
      if (entry.kind == OptimizerEntry::Kind::kValue) return;
      entry.param -= count;
      entry.stored = places[entry.stored];
    };
    for (auto& entries : optimizer.entries)
      if (entries) std::ranges::for_each(*entries, move);
    for (auto& master : optimizer.masters)
      if (master) move(*master);
  }
  out.artifact.warnings.push_back(
      fmt::format("{} besides the model's parameters {} left out, the first is {}: hf, "
                  "torch and fsdp keep them",
                  Counted(out.carried.size(), "tensor"), out.carried.size() == 1 ? "is" : "are",
                  out.carried.front()));
  out.carried.clear();
}

namespace {

std::string AllOf(uint64_t count, std::string_view noun) {
  return (count == 1 ? "" : "all ") + Counted(count, noun);
}

}  // namespace

void NameMeaning(const BoundArtifact& bound, uint64_t ranks, std::string_view assumed,
                 std::vector<std::string>& checks) {
  if (!bound.model->config.family->splits_qkv) return;
  checks.push_back(
      fmt::format("meaning: on {} and {} every query head sits with its own key head, and "
                  "o_proj's columns match{}",
                  AllOf(ranks, "rank"), Counted(bound.model->config.layers, "layer"), assumed));
}

}  // namespace nxdkit::kinds
