#include "formats/kinds/hf/read_hf.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "formats/kinds/bind.h"
#include "formats/models/view.h"
#include "lib/base/errors.h"

namespace nxdkit::kinds {
namespace {

// Heads that are tied to the embedding, saved under both names: one tensor in memory, and in the
// file of torch.save. transformers leaves them out, and adds them when loading.
class TiedHeads {
 public:
  explicit TiedHeads(const TensorFile& file) {
    for (const StoredTensor& stored : file.tensors)
      if (!stored.name.ends_with(kHead)) others_.emplace(PlaceOf(stored), &stored);
  }
  bool Has(const StoredTensor& stored) const {
    if (!stored.name.ends_with(kHead)) return false;
    const auto same = others_.find(PlaceOf(stored));
    return same != others_.end() && same->second->shape == stored.shape &&
           same->second->strides == stored.strides;
  }

 private:
  static constexpr std::string_view kHead = "lm_head.weight";
  using Place = std::pair<const Storage*, uint64_t>;
  static Place PlaceOf(const StoredTensor& stored) { return {stored.storage.get(), stored.offset}; }
  std::map<Place, const StoredTensor*> others_;
};

// A model without a table: each tensor is its own parameter.
Status BindPlain(BoundArtifact& out) {
  std::unordered_map<std::string, std::string> seen;
  for (uint32_t f = 0; f < out.artifact.files.size(); ++f) {
    const TiedHeads tied(out.artifact.files[f]);
    for (const StoredTensor& stored : out.artifact.files[f].tensors) {
      if (tied.Has(stored)) {
        out.left_out.push_back(stored.name);
        continue;
      }
      const auto [it, added] = seen.emplace(stored.name, out.artifact.files[f].path);
      if (!added)
        return Corrupt("the tensor is in {} too", it->second)
            .in(out.artifact.files[f].path)
            .on(stored.name);
      const auto number = static_cast<uint32_t>(out.params.size());
      out.params.push_back({stored.name, stored.shape, 0, 0});
      out.bound.Add(WholeTensor(stored.name, f, number, stored.shape), stored);
    }
  }
  return OkStatus();
}

// The names in all spellings of the family: the spelling that fits most stored tensors comes first,
// since the same name may have another shape in another.
Result<NameMap> KnownNames(const BoundArtifact& out) {
  const models::Model& model = *out.model;
  std::vector<std::string> spellings = models::Spellings(*model.config.family);
  spellings.insert(spellings.begin(), "");
  std::vector<std::pair<size_t, NameMap>> maps;  // with the number of tensors that fit
  for (const std::string& spelling : spellings) {
    NXDKIT_ASSIGN(std::vector<TensorLayout> tensors, models::SpelledTensors(model, spelling));
    NameMap names = ByName(std::move(tensors));
    size_t fits = 0;
    for (const TensorFile& file : out.artifact.files)
      for (const StoredTensor& stored : file.tensors)
        if (const auto it = names.find(stored.name); it != names.end())
          fits += it->second.shape == stored.shape ? 1 : 0;
    const bool all = fits == out.artifact.tensor_count();
    maps.emplace_back(fits, std::move(names));
    if (all) break;
  }
  const auto best =
      std::ranges::max_element(maps, {}, &std::pair<size_t, NameMap>::first);  // the first of them
  NameMap known = std::move(best->second);
  for (auto& [fits, names] : maps) known.merge(names);
  return known;
}

// Whether these are quantised weights of a model that is known only by its tensors' names: the
// original families refuse them.
bool IsQuantised(const BoundArtifact& out, const NameMap& known) {
  const models::ModelConfig& config = out.model->config;
  if (config.quant_method.empty() || config.family->has_bundles() ||
      config.family->training.stores_aliases)
    return false;
  for (const TensorFile& file : out.artifact.files)
    for (const StoredTensor& stored : file.tensors)
      if (!known.contains(stored.name) || !Info(stored.dtype).floating) return true;
  return false;
}

}  // namespace

Status BindHf(BoundArtifact& out, const InputHints&) {
  WarnOfConfig(out.artifact);
  if (!out.artifact.config) return BindPlain(out);
  if (!out.artifact.config->family) {
    out.artifact.warnings.push_back(models::NoTableText(*out.artifact.config) +
                                    ": tensors are taken by their names, and nothing is proved of "
                                    "them");
    return BindPlain(out);
  }
  NXDKIT_TRY(RequireFamily(out));
  NXDKIT_ASSIGN(const NameMap known, KnownNames(out));
  if (IsQuantised(out, known)) {
    out.model.reset();
    out.params.clear();
    out.artifact.config->family.reset();
    return BindPlain(out);
  }
  const Unwrapping unwrapping = UnwrapFiles(out.artifact, 0, out.artifact.files.size(), known);
  for (uint32_t f = 0; f < out.artifact.files.size(); ++f)
    NXDKIT_TRY(BindFile(out, f, known, unwrapping));
  return CheckCarriedOnce(out);
}

}  // namespace nxdkit::kinds
