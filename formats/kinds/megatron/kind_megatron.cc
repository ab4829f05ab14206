// Distributed checkpoints of Megatron-Core (torch_dist), as Megatron-LM, Megatron-Bridge, slime,
// verl and NeMo-RL write them. The view "megatron" of a family's text maps their tensors to
// parameters; after that they are read as a distributed checkpoint.
#include "formats/dcp/folder.h"
#include "formats/kinds/megatron/bind_megatron.h"
#include "formats/kinds/megatron/buckets.h"
#include "formats/kinds/megatron/facts_megatron.h"
#include "formats/kinds/megatron/megatron_state.h"
#include "formats/kinds/table.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

// The model's folder, and the optimizer's if it is another one: both as one, relative to their
// root.
Result<dcp::Folder> OpenBoth(const megatron::Found& found, const Looker& look) {
  NXDKIT_ASSIGN(dcp::Folder model, dcp::Open(found.model, look));
  if (found.optimizer.empty() || found.optimizer == found.model) return model;
  NXDKIT_ASSIGN(dcp::Folder optimizer, dcp::Open(found.optimizer, look));
  dcp::Folder both;
  both.path = found.root;
  const auto below = [&](const std::string& folder) {
    return folder.substr(JoinPath(found.root, "").size());
  };
  dcp::AppendFolder(below(found.model), std::move(model), both);
  dcp::AppendFolder(below(found.optimizer), std::move(optimizer), both);
  return both;
}

Status OpenMegatron(Artifact& artifact, const InputHints& hints) {
  NXDKIT_ASSIGN(const bool is_folder, artifact.look.IsFolder(artifact.path));
  if (!is_folder)
    return Unsupported("a checkpoint of Megatron-Core is a folder; this is a file")
        .in(artifact.path);
  NXDKIT_ASSIGN(const megatron::Found found,
                megatron::Find(artifact.path, hints.Text("tag"), artifact.look));
  if (found.choice) artifact.choices.push_back(*found.choice);
  artifact.warnings = found.warnings;
  NXDKIT_ASSIGN(dcp::Folder folder, OpenBoth(found, artifact.look));
  artifact.warnings.insert(artifact.warnings.end(), folder.warnings.begin(), folder.warnings.end());
  artifact.files = folder.files;
  artifact.folder = artifact.path;
  auto shared = std::make_shared<const dcp::Folder>(std::move(folder));
  auto state = std::make_shared<MegatronState>(shared, nullptr);
  state->found = found;
  state->stored = shared;
  NXDKIT_TRY(megatron::ReadCommonState(found.model, *shared, artifact.look).To(state->common));
  state->optimizer_common = state->common;
  if (!found.optimizer.empty() && found.optimizer != found.model)
    NXDKIT_TRY(megatron::ReadCommonState(found.optimizer, *shared, artifact.look)
                   .To(state->optimizer_common));
  if (HasBuckets(*shared)) NXDKIT_TRY(ReadBucketGroups(*shared, state->optimizer_common));
  artifact.state = state;
  return LoadConfig(artifact, hints, found.config_folders);
}

constexpr OptionRow kRows[] = {
    {"tag", "TAG", "tag, save or iteration to read; by default the latest", kAsInput}};

}  // namespace

constinit const Kind kMegatronDist = {
    .name = "megatron-dist",
    .called = "a distributed checkpoint of Megatron-Core",
    .precedence = 6,
    .is_folder = megatron::HasCheckpoint,
    .open = OpenMegatron,
    .bind = BindMegatron,
    .options = kRows,
    .state = StateForm::kNamed,
    .archives = ArchivesOfDcp,
    .describe = DescribeMegatron,
    .add_facts = AddMegatronFacts,
    .instead = "Megatron's trainers load a Hugging Face model (Megatron-Bridge, mbridge): --to hf",
};

}  // namespace nxdkit::kinds
