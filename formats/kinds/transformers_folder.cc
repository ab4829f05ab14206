#include "formats/kinds/transformers_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "formats/dcp/safetensors_folder.h"
#include "formats/dcp/whole_archive.h"
#include "formats/hf/hf.h"
#include "formats/kinds/open_file.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

constexpr char kWholeState[] = "optimizer.pt";
constexpr int kMaxStateDepth = 8;  // {"optimizer": {"state": {NAME: {"exp_avg": ...}}}}

// Where the weights are. Chunks come first: the whole files of the older form repeat them.
enum class WeightsIn : uint8_t { kNowhere, kShards, kShardsBelow, kWholeFiles };

Result<bool> HasShardsIn(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool folder, look.IsFolder(path));
  if (!folder) return false;
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListFolder(path));
  return dcp::HasShards(path, names);
}

Result<WeightsIn> FindWeights(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool shards, HasShardsIn(path, look));
  if (shards) return WeightsIn::kShards;
  NXDKIT_ASSIGN(const bool below, HasShardsIn(JoinPath(path, kShardedBelow), look));
  if (below) return WeightsIn::kShardsBelow;
  NXDKIT_ASSIGN(const bool whole, hf::HasWeights(path, look));
  return whole ? WeightsIn::kWholeFiles : WeightsIn::kNowhere;
}

dcp::Folder WholeTensorsOf(hf::Checkpoint weights) {
  dcp::Folder out;
  for (TensorFile& file : weights.files) {
    const auto number = static_cast<uint32_t>(out.files.size());
    for (const StoredTensor& tensor : file.tensors) {
      dcp::StoredEntry entry{tensor.name, tensor.dtype, tensor.shape, {}};
      const Box box = WholeBox(tensor.shape);
      if (box.Volume() > 0) entry.chunks.push_back({box, number, tensor});
      out.tensors.push_back(std::move(entry));
    }
    out.files.push_back(std::move(file));
  }
  return out;
}

Result<dcp::Folder> OpenWeights(const std::string& path, WeightsIn where, const Looker& look) {
  if (where == WeightsIn::kShards) return dcp::OpenShards(path, look);
  if (where == WeightsIn::kShardsBelow) return dcp::OpenShards(JoinPath(path, kShardedBelow), look);
  NXDKIT_ASSIGN(hf::Checkpoint weights, hf::Open(path, OpenTensorFile, "", look));
  return WholeTensorsOf(std::move(weights));
}

// The keys that torch makes of nested dicts, and of lists that have such in them.
Status AddNested(const std::string& key, const torch::PickleValue& value, int depth,
                 dcp::WholeArchive& out) {
  if (depth > kMaxStateDepth) return Corrupt("over {} levels of dicts", kMaxStateDepth);
  if (const torch::PickleDict* dict = value.dict()) {
    for (const auto& [name, item] : *dict)
      if (name.string()) NXDKIT_TRY(AddNested(key + "." + *name.string(), item, depth + 1, out));
    return OkStatus();
  }
  const torch::PickleList* list = value.list();
  const bool nested = list && !list->empty() && list->front().dict();
  if (!nested) {
    out.AddAny(key, value);
    return OkStatus();
  }
  for (size_t i = 0; i < list->size(); ++i)
    NXDKIT_TRY(AddNested(fmt::format("{}.{}", key, i), (*list)[i], depth + 1, out));
  return OkStatus();
}

Result<dcp::Folder> OpenState(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool folder, look.HasFile(path, dcp::kMetadataFile));
  NXDKIT_ASSIGN(const bool whole, look.HasFile(path, kWholeState));
  if (folder || !whole) return dcp::Open(path, look);
  const std::string file = JoinPath(path, kWholeState);
  NXDKIT_ASSIGN(const torch::Archive archive, torch::ReadArchive(file));
  const torch::PickleValue* state = archive.root.dict() ? archive.root.Find("optimizer") : nullptr;
  if (!state || !state->dict()) return Corrupt("no dict under \"optimizer\"").in(file);
  dcp::Folder out;
  dcp::WholeArchive into(archive, out);
  NXDKIT_TRY(AddNested("optimizer", *state, 0, into).in(file));
  return out;
}

Status WarnOfRandomStates(const std::string& path, const Looker& look, dcp::Folder& out) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListFolder(path));
  const auto count = std::ranges::count_if(names, [](const std::string& name) {
    return name.starts_with("rng_state") && name.ends_with(".pth");
  });
  if (count > 0)
    dcp::AddWarning(out,
                    fmt::format("the random states in rng_state*.pth are left, which are those of "
                                "{} {}",
                                count, count == 1 ? "process" : "ranks"));
  return OkStatus();
}

}  // namespace

Result<bool> IsTransformersFolder(const std::string& path, const Looker& look) {
  const std::string state = JoinPath(path, kOptimizerBeside);
  NXDKIT_ASSIGN(const bool folder, look.IsFolder(state));
  if (!folder) return false;
  NXDKIT_ASSIGN(const WeightsIn where, FindWeights(path, look));
  if (where == WeightsIn::kShards || where == WeightsIn::kShardsBelow) return true;
  if (where == WeightsIn::kNowhere) return false;
  NXDKIT_ASSIGN(const bool saved, look.HasFile(state, dcp::kMetadataFile));
  return saved ? Result<bool>(true) : look.HasFile(state, kWholeState);
}

Result<dcp::Folder> OpenTransformers(const std::string& path, const Looker& look) {
  dcp::Folder out;
  out.path = path;
  out.form = dcp::FolderForm::kTransformers;
  NXDKIT_ASSIGN(const WeightsIn where, FindWeights(path, look));
  NXDKIT_ASSIGN(dcp::Folder weights, OpenWeights(path, where, look));
  dcp::AppendFolder(where == WeightsIn::kShardsBelow ? kShardedBelow : "", std::move(weights), out);
  Result<dcp::Folder> state = OpenState(JoinPath(path, kOptimizerBeside), look);
  if (!state.ok() && state.error().code() == Errc::kIo) return std::move(state).error();
  if (state.ok())
    dcp::AppendFolder(kOptimizerBeside, *std::move(state), out);
  else
    dcp::AddWarning(out, "the optimizer's state is left out: " + state.error().ToString());
  NXDKIT_TRY(dcp::AddSchedulerFile(path, look, out));
  NXDKIT_TRY(WarnOfRandomStates(path, look, out));
  return out;
}

}  // namespace nxdkit::kinds
