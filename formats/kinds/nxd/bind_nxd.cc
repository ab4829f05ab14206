#include "formats/kinds/nxd/read_nxd.h"

#include <fmt/core.h>

#include <map>

#include "formats/kinds/bind.h"
#include "formats/kinds/nxd/nxd_options.h"
#include "formats/kinds/nxd/nxd_state.h"
#include "lib/base/errors.h"

namespace nxdkit::kinds {
namespace {

// The reference converter slices the experts for every expert parallel rank, and then stores all of
// them anyway.
Status CheckExperts(const BoundArtifact& out, const nxd::Geometry& geometry) {
  for (size_t t = 0; t < out.bound.stored.size(); ++t) {
    const StoredTensor& stored = out.bound.stored[t];
    const Shape& shape = out.bound.layout.tensors[t].shape;
    if (geometry.ep == 1 || shape.size() != 3 || stored.shape.size() != 3 ||
        stored.shape == shape || stored.shape[0] != out.model->config.experts)
      continue;
    return Corrupt(
               "all {} experts are stored here, {} of each of the {} expert parallel ranks were "
               "expected",
               stored.shape[0], shape[0], geometry.ep)
        .in(stored.storage->path())
        .on(stored.name)
        .hint(
            "NxD's checkpoint_converter.py writes such sets for --ep_size above 1; convert the "
            "original checkpoint again with nxd-convert --ep");
  }
  return OkStatus();
}

}  // namespace

namespace {

// A family's text that cuts otherwise gives another model, possibly with the same names and shapes.
void WarnOfOtherText(BoundArtifact& out, const std::string& recorded) {
  const models::Family& family = *out.model->config.family;
  if (recorded.empty() || recorded == family.digest) return;
  out.artifact.warnings.push_back(fmt::format(
      "{}: the set was made with another text of the family {} (sha256 {}, here {}): if it cuts "
      "otherwise, the weights are read wrongly",
      out.artifact.path, family.model_type, recorded.substr(0, 12), family.digest.substr(0, 12)));
}

}  // namespace

Status BindNxd(BoundArtifact& out, const InputHints& hints) {
  NXDKIT_TRY(RequireFamily(out));
  const NxdState& state = *NxdStateOf(out.artifact);
  std::vector<nxd::Claims> claims{ClaimsOf(hints)};
  if (state.sidecar) {
    claims.push_back(state.sidecar->claims);
    WarnOfOtherText(out, state.sidecar->family_sha256);
  }
  if (state.mp_record) {
    NXDKIT_TRY(nxd::CheckMpHeads(*state.mp_record, out.model->config));
    claims.push_back(state.mp_record->claims);
  }
  NXDKIT_ASSIGN(const nxd::Detected detected,
                nxd::Detect(state.set, out.model->config, claims, HardwareIfUnknown(hints)));
  auto layout = std::make_shared<NxdLayout>();
  layout->geometry = detected.geometry;
  layout->replicas = detected.replicas;
  out.state = std::move(layout);
  out.artifact.warnings.insert(out.artifact.warnings.end(), detected.warnings.begin(),
                               detected.warnings.end());
  std::map<std::pair<int, int>, NameMap> by_rank;  // tp and ep rank
  for (uint32_t f = 0; f < out.artifact.files.size(); ++f) {
    const nxd::ShardFile& file = state.set.shards[f].file;
    const auto [known, added] = by_rank.try_emplace({file.tp, file.ep});
    if (added) {
      // A config that cannot be laid out over the set's ranks is not this set's.
      NXDKIT_ASSIGN(std::vector<nxd::RankTensor> tensors,
                    nxd::RankTensors(*out.model, detected.geometry, file.tp, true, file.ep)
                        .in(out.artifact.config_path));
      std::vector<TensorLayout> layouts;
      for (nxd::RankTensor& tensor : tensors) layouts.push_back(std::move(tensor.layout));
      known->second = ByName(std::move(layouts));
    }
    const Unwrapping unwrapping = UnwrapFiles(out.artifact, f, f + 1, known->second);
    NXDKIT_TRY(BindFile(out, f, known->second, unwrapping).rank(file.tp));
  }
  NXDKIT_TRY(CheckExperts(out, detected.geometry));
  return hints.optimizer ? BindOptimizer(out, hints) : OkStatus();
}

}  // namespace nxdkit::kinds
