#include "formats/kinds/delta/facts_delta.h"
#include "formats/kinds/delta/read_delta.h"
#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

// Changes alone are not a model: everything but the changed elements comes from the base.
Status OpenDelta(Artifact& artifact, const InputHints& hints) {
  const std::string base_path = hints.Text("base").value_or("");
  if (base_path.empty() && !hints.memory)
    return BadUsage("a delta holds what changed in a model; its base is not named")
        .in(artifact.path)
        .hint("nxd-convert --from delta takes it with --base");
  NXDKIT_ASSIGN(const bool is_folder, artifact.look.IsFolder(artifact.path));
  if (is_folder) return Unsupported("a delta is one file; this is a folder").in(artifact.path);
  NXDKIT_ASSIGN(const std::shared_ptr<const delta::Delta> delta, delta::Delta::Open(artifact.path));
  const Kind* kind = nullptr;
  if (!hints.memory) NXDKIT_TRY(Recognise(base_path, artifact.look).To(kind));
  if (kind == artifact.kind)
    return Unsupported("the base of a delta is a delta, expected a model").in(base_path);
  InputHints base_hints = hints;
  base_hints.Reset("base");
  NXDKIT_ASSIGN(Artifact base, OpenArtifact(base_path, kind, base_hints, artifact.look));
  artifact.side_folder = base.side_folder;
  artifact.config_path = base.config_path;
  artifact.config_text = base.config_text;
  artifact.config = base.config;
  artifact.warnings = base.warnings;
  artifact.choices = base.choices;
  artifact.files = base.files;
  artifact.files.push_back({artifact.path, "delta", delta->file_bytes(), {}, {}});
  artifact.ranks = base.ranks;
  artifact.ranks.push_back({artifact.path, -1, -1});
  artifact.state = std::make_shared<const DeltaState>(delta, std::move(base));
  return OkStatus();
}

}  // namespace

constinit const Kind kDelta = {
    .name = "delta",
    .called = "a delta",
    .precedence = 5,
    .is_file = delta::LooksLikeDelta,
    .open = OpenDelta,
    .bind = BindDelta,
    .reads_base = true,
    .describe = DescribeDelta,
    .add_facts = AddDeltaFacts,
};

const DeltaState* DeltaStateOf(const Artifact& artifact) {
  return dynamic_cast<const DeltaState*>(artifact.state.get());
}

std::shared_ptr<const delta::Delta> DeltaOf(const Artifact& artifact) {
  const DeltaState* const state = DeltaStateOf(artifact);
  return state ? state->delta : nullptr;
}

}  // namespace nxdkit::kinds
