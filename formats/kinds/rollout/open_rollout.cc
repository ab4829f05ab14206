#include "formats/kinds/rollout/read_rollout.h"

#include <fmt/format.h>

#include "formats/kinds/open_file.h"
#include "formats/kinds/rollout/rollout_state.h"
#include "formats/rollout/weight_slots.h"
#include "lib/system/paths.h"

namespace nxdkit::kinds {

Status OpenRollout(Artifact& artifact, const InputHints& hints) {
  NXDKIT_ASSIGN(rollout::Bundle bundle,
                rollout::OpenBundle(artifact.path, OpenTensorFile, hints.Text("slot").value_or(""),
                                    artifact.look));
  if (bundle.half_done) return rollout::HalfWritten(bundle.weights_folder);
  artifact.warnings = bundle.warnings;
  if (bundle.choice) artifact.choices.push_back(*bundle.choice);
  if (!bundle.config)
    artifact.warnings.push_back(
        fmt::format("{}: neuron_config.json is missing: no engine can load the bundle as it is",
                    artifact.path));
  artifact.files = bundle.shards;
  for (size_t i = 0; i < bundle.shards.size(); ++i)
    artifact.ranks.push_back(
        {bundle.shards[i].path, bundle.first_rank + static_cast<int64_t>(i), -1});
  artifact.folder = artifact.path;
  // NxDI keeps the model's configuration in its own.
  const bool is_nxdi = bundle.config && bundle.config->flavor == rollout::Flavor::kNxdi;
  const std::string merged = is_nxdi ? JoinPath(bundle.folder, "neuron_config.json") : "";
  artifact.state = std::make_shared<const RolloutState>(std::move(bundle));
  return LoadConfig(artifact, hints, {artifact.path}, merged);
}

const rollout::Bundle* BundleOf(const Artifact& artifact) {
  const auto* const state = dynamic_cast<const RolloutState*>(artifact.state.get());
  return state ? &state->bundle : nullptr;
}

const rollout::Geometry* RolloutGeometryOf(const BoundArtifact& bound) {
  const auto* const layout = dynamic_cast<const RolloutLayout*>(bound.state.get());
  return layout ? &layout->geometry : nullptr;
}

}  // namespace nxdkit::kinds
