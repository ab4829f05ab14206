// Checkpoints of DeepSpeed's engine: ZeRO stages 1, 2 and 3, universal ones, and those without
// ZeRO. Once opened they are read as the distributed checkpoint that they form together.
#include <map>
#include <string_view>

#include "formats/dcp/folder.h"
#include "formats/kinds/dcp/lora_dcp.h"
#include "formats/kinds/run_folder.h"
#include "formats/kinds/table.h"
#include "formats/kinds/zero/facts_zero.h"
#include "formats/kinds/zero/zero_state.h"
#include "formats/training/check_masters.h"
#include "formats/zero/open.h"
#include "formats/zero/tag_files.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

Status OpenZero(Artifact& artifact, const InputHints& hints) {
  NXDKIT_ASSIGN(const bool is_folder, artifact.look.IsFolder(artifact.path));
  if (!is_folder)
    return Unsupported("a checkpoint of DeepSpeed is a folder; this is a file").in(artifact.path);
  NXDKIT_ASSIGN(const zero::FoundTag tag,
                zero::FindTag(artifact.path, hints.Text("tag"), artifact.look));
  if (tag.choice) artifact.choices.push_back(*tag.choice);
  NXDKIT_ASSIGN(const zero::TagFiles files, zero::ListTag(tag.path, artifact.look));
  zero::OpenOptions options;
  options.optimizer = hints.optimizer;
  NXDKIT_ASSIGN(zero::Opened opened, zero::Open(files, options));
  artifact.warnings = tag.warnings;
  artifact.warnings.insert(artifact.warnings.end(), opened.folder.warnings.begin(),
                           opened.folder.warnings.end());
  artifact.files = opened.folder.files;
  artifact.folder = artifact.path;
  artifact.proofs = opened.facts.proofs;
  artifact.state = std::make_shared<const ZeroState>(
      std::make_shared<const dcp::Folder>(std::move(opened.folder)), std::move(opened.facts));
  return LoadConfig(artifact, hints,
                    {artifact.path, ParentPath(artifact.path), ParentPath(tag.path),
                     JoinPath(artifact.path, kRunModelFolder)});
}

// Weights that exist only as master weights get the dtype of their module.
void TakeOwnDtypes(BoundArtifact& bound) {
  const zero::Facts& facts = *ZeroFactsOf(bound.artifact);
  const dcp::Folder& folder = *DcpFolderOf(bound.artifact);
  if (facts.dtypes.empty()) return;
  bound.own_dtypes.resize(bound.params.size());
  for (const TensorLayout& tensor : bound.bound.layout.tensors) {
    const auto dtype = facts.dtypes.find(dcp::StoredKey(folder, tensor.name));
    if (dtype == facts.dtypes.end()) continue;
    for (const Piece& piece : tensor.pieces) bound.own_dtypes[piece.param] = dtype->second;
  }
}

// A parameter without elements has no place that gives its dtype.
void TakeEmptyDtypes(BoundArtifact& bound) {
  std::map<std::string_view, Dtype> empty;
  for (const dcp::StoredEntry& entry : DcpFolderOf(bound.artifact)->tensors)
    if (entry.chunks.empty()) empty.emplace(entry.key, entry.dtype);
  if (empty.empty()) return;
  bound.own_dtypes.resize(bound.params.size());
  for (size_t i = 0; i < bound.params.size(); ++i)
    if (const auto found = empty.find(bound.params[i].name); found != empty.end())
      bound.own_dtypes[i] = found->second;
}

Status BindZero(BoundArtifact& bound, const InputHints& hints) {
  NXDKIT_TRY(BindDcp(bound, hints));
  if (!hints.optimizer) TakeOwnDtypes(bound);
  TakeEmptyDtypes(bound);
  return bound.optimizer ? training::ProveState(bound) : OkStatus();
}

Result<bool> IsZeroRun(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const RunCheckpoint found, FindCheckpoint(path, look));
  return zero::HasTags(found.path, look);
}

constexpr OptionRow kRows[] = {
    {"tag", "TAG", "tag, save or iteration to read; by default the latest", kAsInput},
    kLoraTakeRow};

}  // namespace

constinit const Kind kZero = {
    .name = "zero",
    .called = "a checkpoint of DeepSpeed",
    .precedence = 7,
    .is_folder = zero::HasTags,
    .open = OpenZero,
    .bind = BindZero,
    .options = kRows,
    .state = StateForm::kNamed,
    .is_adapter = IsZeroRun,
    .holds_adapter = HoldsLoraDcp,
    .adapter_folders = LoraFoldersDcp,
    .bind_adapter = BindLoraDcp,
    .archives = ArchivesOfDcp,
    .describe = DescribeZero,
    .add_facts = AddZeroFacts,
    .instead =
        "DeepSpeed begins with a model of Hugging Face's: --to hf; its own state is resumed "
        "from its own folder alone",
};

}  // namespace nxdkit::kinds
