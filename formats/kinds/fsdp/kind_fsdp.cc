// Rank files of an FSDP run, as EasyR1, verl and their forks write them. Once opened they are read
// as the distributed checkpoint that they form together.
#include "formats/dcp/folder.h"
#include "formats/fsdp/open.h"
#include "formats/kinds/dcp/lora_dcp.h"
#include "formats/kinds/fsdp/decide_fsdp.h"
#include "formats/kinds/fsdp/facts_fsdp.h"
#include "formats/kinds/fsdp/fsdp_state.h"
#include "formats/kinds/run_folder.h"
#include "formats/kinds/table.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

Status OpenFsdp(Artifact& artifact, const InputHints& hints) {
  NXDKIT_ASSIGN(const bool is_folder, artifact.look.IsFolder(artifact.path));
  if (!is_folder)
    return Unsupported("the rank files of a run are a folder; this is a file").in(artifact.path);
  fsdp::OpenOptions options;
  options.world = hints.Number("ranks-of");
  options.optimizer = hints.optimizer;
  options.partial = hints.partial;
  NXDKIT_ASSIGN(fsdp::Opened opened, fsdp::Open(artifact.path, artifact.look, options));
  artifact.warnings = opened.folder.warnings;
  artifact.files = opened.folder.files;
  artifact.folder = artifact.path;
  artifact.state = std::make_shared<const FsdpState>(
      std::make_shared<const dcp::Folder>(std::move(opened.folder)), std::move(opened.facts));
  const std::string model = JoinPath(artifact.path, kRunModelFolder);
  return LoadConfig(artifact, hints, {model, artifact.path, ParentPath(artifact.path)});
}

Result<bool> IsFsdpRun(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const RunCheckpoint found, FindCheckpoint(path, look));
  return fsdp::HasRankFiles(found.path, look);
}

constexpr OptionRow kRows[] = {
    {"ranks-of", "N", "world size to read, if the folder has files for several", kAsInput},
    {"mesh", "dp=N,tp=N", "ranks to cut the tensors for: dp=N,tp=N, or dp=N with --to fsdp",
     kAsTarget},
    {"for", "verl|easyr1", "program that will load the output", kAsTarget},
    {"fsdp", "1|2", "version of FSDP that will load the rank files", kAsTarget},
    {"torch", "VERSION", "torch release that will load the rank files, 2.4 to 2.15", kAsTarget},
    {"device", "NAME", "device of the mesh in the rank files, such as cuda or npu", kAsTarget},
    {"style", "hf|hf-fused|torchtitan|torchtitan-unfused|torchtitan-2025",
     "naming scheme of the parameters", kAsTarget},
    kLoraTakeRow};

}  // namespace

constinit const Kind kFsdp = {
    .name = "fsdp",
    .called = "the rank files of an FSDP run",
    .precedence = 0,
    .is_folder = fsdp::HasRankFiles,
    .open = OpenFsdp,
    .bind = BindDcp,
    .options = kRows,
    .check_options = CheckFsdpOptions,
    .state = StateForm::kNamed,
    .is_adapter = IsFsdpRun,
    .holds_adapter = HoldsLoraDcp,
    .adapter_folders = LoraFoldersDcp,
    .bind_adapter = BindLoraDcp,
    .archives = ArchivesOfDcp,
    .describe = DescribeFsdp,
    .add_facts = AddFsdpFacts,
    .decide = DecideFsdp,
    .keeps_carried = true,
};

}  // namespace nxdkit::kinds
