#include "formats/kinds/bind.h"

#include <fmt/core.h>

#include "lib/base/errors.h"

namespace nxdkit::ops {

NameMap ByName(std::vector<TensorLayout> tensors) {
  NameMap map;
  map.reserve(tensors.size());
  for (TensorLayout& tensor : tensors) {
    std::string name = tensor.name;
    map.emplace(std::move(name), std::move(tensor));
  }
  return map;
}

Status BindFile(BoundArtifact& out, uint32_t file, const NameMap& known) {
  out.bound.stored.reserve(out.artifact.tensor_count());
  out.bound.layout.tensors.reserve(out.artifact.tensor_count());
  for (const StoredTensor& stored : out.artifact.files[file].tensors) {
    const auto it = known.find(stored.name);
    if (it != known.end()) {
      out.bound.Add(it->second, stored);
      out.bound.layout.tensors.back().file = file;
      continue;
    }
    if (models::IsIgnorable(*out.model->config.family, stored.name)) {
      out.left_out.push_back(stored.name);
      continue;
    }
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
    return NotFound("no config.json: the shapes alone do not tell heads, layers and family")
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

void NameMeaning(const BoundArtifact& bound, uint64_t ranks, std::string_view assumed,
                 std::vector<std::string>& checks) {
  if (!SplitsQkv(*bound.model->config.family)) return;
  checks.push_back(
      fmt::format("meaning: on all {} ranks and {} layers every query head sits with its own key "
                  "head, and o_proj's columns match{}",
                  ranks, bound.model->config.layers, assumed));
}

}  // namespace nxdkit::ops
