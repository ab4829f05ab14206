#include "formats/dcp/accelerate.h"

#include <utility>

#include "formats/dcp/whole_archive.h"
#include "formats/torch/archive.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::dcp {
namespace {

constexpr char kModelFolder[] = "pytorch_model_fsdp_0";
constexpr char kOptimizerFolder[] = "optimizer_0";
constexpr char kAcceleratesScheduler[] = "scheduler.bin";
constexpr char kWholeModel[] = "pytorch_model_fsdp.bin";  // written with FULL_STATE_DICT
constexpr char kWholeOptimizer[] = "optimizer.bin";

Status AddScheduler(const std::string& path, const Looker& look, Folder& out) {
  NXDKIT_ASSIGN(const bool accelerates, look.HasFile(path, kAcceleratesScheduler));
  if (accelerates)
    AddWarning(out, "scheduler.bin is left out: accelerate counts a step of every rank in it");
  return AddSchedulerFile(path, look, out);
}

Result<Folder> OpenWholeModel(const std::string& path) {
  NXDKIT_ASSIGN(const torch::Archive archive, torch::ReadArchive(path));
  if (!archive.root.dict()) return Corrupt("not a dict of tensors").in(path);
  Folder out;
  WholeArchive whole(archive, out);
  for (const auto& [key, value] : *archive.root.dict())
    if (key.string() && value.tensor()) whole.Add(*key.string(), *value.tensor());
  return out;
}

// {"state": {NAME: {"exp_avg": ...}}, "param_groups": [{..., "params": [NAME, ...]}]}
Result<Folder> OpenWholeOptimizer(const std::string& path) {
  NXDKIT_ASSIGN(const torch::Archive archive, torch::ReadArchive(path));
  const torch::PickleValue* state = archive.root.dict() ? archive.root.Find("state") : nullptr;
  const torch::PickleValue* groups = state ? archive.root.Find("param_groups") : nullptr;
  if (!state || !state->dict() || !groups || !groups->list())
    return Corrupt("not an optimizer's state by names").in(path);
  Folder out;
  WholeArchive whole(archive, out);
  for (const auto& [name, kept] : *state->dict()) {
    if (!name.string() || !kept.dict())
      return Unsupported("the optimizer's parameters have no names").in(path);
    for (const auto& [what, value] : *kept.dict())
      if (what.string())
        whole.AddAny("optimizer.state." + *name.string() + "." + *what.string(), value);
  }
  for (size_t g = 0; g < groups->list()->size(); ++g) {
    const torch::PickleDict* options = (*groups->list())[g].dict();
    if (!options) return Corrupt("a group of options that is not a dict").in(path);
    for (const auto& [option, value] : *options)
      if (option.string())
        whole.AddAny("optimizer.param_groups." + std::to_string(g) + "." + *option.string(), value);
  }
  return out;
}

Result<bool> IsSharded(const std::string& path, const Looker& look) {
  return look.HasFile(JoinPath(path, kModelFolder), kMetadataFile);
}

}  // namespace

Result<bool> IsAccelerateFolder(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool sharded, IsSharded(path, look));
  if (sharded) return true;
  NXDKIT_ASSIGN(const bool model, look.HasFile(path, kWholeModel));
  return model ? look.HasFile(path, kWholeOptimizer) : Result<bool>(false);
}

Result<Folder> OpenAccelerate(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool sharded, IsSharded(path, look));
  const std::string model_path = JoinPath(path, sharded ? kModelFolder : kWholeModel);
  const std::string state_path = JoinPath(path, sharded ? kOptimizerFolder : kWholeOptimizer);
  Folder out;
  out.path = path;
  NXDKIT_ASSIGN(Folder model, sharded ? Open(model_path, look) : OpenWholeModel(model_path));
  AppendFolder(kModelFolder, std::move(model), out);
  NXDKIT_ASSIGN(const bool there, look.IsThere(state_path));
  if (there) {
    Result<Folder> state = sharded ? Open(state_path, look) : OpenWholeOptimizer(state_path);
    if (!state.ok() && state.error().code() != Errc::kUnsupported)
      return std::move(state).error().hint(
          "the weights alone are read where the optimizer's folder is moved away");
    if (state.ok())
      AppendFolder(kOptimizerFolder, *std::move(state), out);
    else
      AddWarning(out, "the optimizer's state is left out: " + state.error().ToString());
  }
  NXDKIT_ASSIGN(const bool second, look.IsFolder(JoinPath(path, "pytorch_model_fsdp_1")));
  if (second) AddWarning(out, "pytorch_model_fsdp_1, of a second model, is not read");
  NXDKIT_TRY(AddScheduler(path, look, out));
  return out;
}

}  // namespace nxdkit::dcp
