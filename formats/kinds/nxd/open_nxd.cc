#include "formats/kinds/nxd/read_nxd.h"

#include <fmt/format.h>

#include "formats/hf/hf.h"
#include "formats/kinds/nxd/nxd_state.h"
#include "lib/system/paths.h"

namespace nxdkit::kinds {

Result<bool> IsNxdFolder(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool is_hf, hf::HasWeights(path, look));
  return is_hf ? Result<bool>(false) : nxd::LooksLikeShardSet(path, look);
}

Status OpenNxd(Artifact& artifact, const InputHints& hints) {
  auto state = std::make_shared<NxdState>();
  const Looker& look = artifact.look;
  NXDKIT_ASSIGN(nxd::SetLocation location, nxd::Locate(artifact.path, hints.Text("tag"), look));
  artifact.warnings = location.warnings;
  if (location.choice) artifact.choices.push_back(*location.choice);
  NXDKIT_ASSIGN(nxd::ShardSet set, nxd::Read(std::move(location), look));
  if (!set.skipped.empty())
    artifact.warnings.push_back(fmt::format("{}: left out, not tensors of the model: {}",
                                            artifact.path, fmt::join(set.skipped, ", ")));
  for (const nxd::Shard& shard : set.shards) {
    artifact.files.push_back(shard.tensors);
    artifact.ranks.push_back({shard.file.path, shard.file.tp, shard.file.pp, shard.file.ep});
  }
  NXDKIT_ASSIGN(state->sidecar, nxd::ReadSidecar(set.location.tag_folder, look));
  NXDKIT_ASSIGN(state->mp_record,
                nxd::ReadMpRecord(set.location.tag_folder, set.location.pp, look));
  if (state->mp_record)
    artifact.warnings.insert(artifact.warnings.end(), state->mp_record->warnings.begin(),
                             state->mp_record->warnings.end());
  const std::string tag = set.location.tag_folder;
  const std::string root = set.location.root;
  artifact.folder = tag;
  state->set = std::move(set);
  artifact.state = std::move(state);
  return LoadConfig(artifact, hints, {tag, root, ParentPath(root)});
}

const NxdState* NxdStateOf(const Artifact& artifact) {
  return dynamic_cast<const NxdState*>(artifact.state.get());
}

const NxdLayout* NxdLayoutOf(const BoundArtifact& bound) {
  return dynamic_cast<const NxdLayout*>(bound.state.get());
}

}  // namespace nxdkit::kinds
