#include "formats/dcp/accelerate.h"
#include "formats/dcp/folder.h"
#include "formats/kinds/dcp/decide_dcp.h"
#include "formats/kinds/dcp/facts_dcp.h"
#include "formats/kinds/dcp/lora_dcp.h"
#include "formats/kinds/dcp/read_dcp.h"
#include "formats/kinds/run_folder.h"
#include "formats/kinds/table.h"
#include "formats/kinds/transformers_folder.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

// Weights and optimizer may be two checkpoints next to each other.
Result<dcp::Folder> OpenFolder(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool accelerate, dcp::IsAccelerateFolder(path, look));
  if (accelerate) return dcp::OpenAccelerate(path, look);
  NXDKIT_ASSIGN(const bool transformers, IsTransformersFolder(path, look));
  return transformers ? OpenTransformers(path, look) : dcp::Open(path, look);
}

Status OpenDcp(Artifact& artifact, const InputHints& hints) {
  NXDKIT_ASSIGN(const bool is_folder, artifact.look.IsFolder(artifact.path));
  if (!is_folder)
    return Unsupported("a torch distributed checkpoint is a folder; this is a file")
        .in(artifact.path);
  NXDKIT_ASSIGN(dcp::Folder folder, OpenFolder(artifact.path, artifact.look));
  artifact.warnings = folder.warnings;
  artifact.files = folder.files;
  artifact.folder = artifact.path;
  artifact.state =
      std::make_shared<const DcpState>(std::make_shared<const dcp::Folder>(std::move(folder)));
  return LoadConfig(artifact, hints, {artifact.path, ParentPath(artifact.path)});
}

Result<bool> IsDcpFolder(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool accelerate, dcp::IsAccelerateFolder(path, look));
  if (accelerate) return true;
  NXDKIT_ASSIGN(const bool transformers, IsTransformersFolder(path, look));
  return transformers ? Result<bool>(true) : dcp::LooksLikeFolder(path, look);
}

Result<bool> IsDcpRun(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const RunCheckpoint found, FindCheckpoint(path, look));
  return IsDcpFolder(found.path, look);
}

constexpr OptionRow kRows[] = {
    {"style", "hf|hf-fused|torchtitan|torchtitan-unfused|torchtitan-2025",
     "naming scheme of the parameters", kAsTarget},
    {"for", "transformers|torchtitan", "program that will load the output", kAsTarget},
    {"chunks", "N", "cut every tensor into N chunks of rows, in N files", kAsTarget},
    {"mesh", "dp=N,tp=N", "ranks to cut the tensors for: dp=N,tp=N, or dp=N with --to fsdp",
     kAsTarget},
    kExchangedRow,
    kLoraTakeRow};

Status CheckDcpOptions(const Arguments& given) {
  const std::optional<int> chunks = given.Number("chunks");
  if (chunks && given.Has("mesh"))
    return BadUsage("--chunks {} is short for --mesh dp={}: give one of them", *chunks, *chunks);
  NXDKIT_TRY(MeshOf(given));
  const std::string program = given.Text("for").value_or("");
  const std::string style = given.Text("style").value_or("");
  const bool of_titan = style.starts_with("torchtitan");
  if (!style.empty() && (program == "torchtitan" ? !of_titan : !program.empty() && of_titan))
    return BadUsage("--for {} does not have the names of --style {}", program, style);
  return OkStatus();
}

}  // namespace

constinit const Kind kDcp = {
    .name = "dcp",
    .called = "a torch distributed checkpoint",
    .precedence = 8,
    .is_folder = IsDcpFolder,
    .open = OpenDcp,
    .bind = BindDcp,
    .options = kRows,
    .check_options = CheckDcpOptions,
    .state = StateForm::kNamed,
    .is_adapter = IsDcpRun,
    .holds_adapter = HoldsLoraDcp,
    .adapter_folders = LoraFoldersDcp,
    .bind_adapter = BindLoraDcp,
    .archives = ArchivesOfDcp,
    .describe = DescribeDcp,
    .add_facts = AddDcpFacts,
    .decide = DecideDcp,
};

}  // namespace nxdkit::kinds
