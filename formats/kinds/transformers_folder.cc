#include "formats/kinds/transformers_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "formats/dcp/safetensors_folder.h"
#include "formats/dcp/whole_archive.h"
#include "formats/hf/hf.h"
#include "formats/kinds/open_file.h"
#include "formats/training/run_progress.h"
#include "formats/training/state_keys.h"
#include "lib/base/errors.h"
#include "lib/json/json.h"
#include "lib/json/json_parse.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

constexpr char kWholeState[] = "optimizer.pt";
constexpr uint64_t kMaxTrainerState = uint64_t{64} << 20;
constexpr int kMaxStateDepth = 4;  // {"optimizer": {"state": {NAME: {"exp_avg": ...}}}}

// Where the weights are: in shards, in shards below and in whole files too, or only in these.
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

Result<dcp::Folder> OpenWholeFiles(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(hf::Checkpoint weights, hf::Open(path, OpenTensorFile, "", look));
  return WholeTensorsOf(std::move(weights));
}

// The whole files of the older form repeat the contents of its shards, and are what is loaded: each
// tensor is a copy, which is compared.
Status AddWholeCopies(const std::string& path, const Looker& look, dcp::Folder& out) {
  NXDKIT_ASSIGN(const bool there, hf::HasWeights(path, look));
  if (!there) return OkStatus();
  NXDKIT_ASSIGN(dcp::Folder whole, OpenWholeFiles(path, look));
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < out.tensors.size(); ++i) known.emplace(out.tensors[i].key, i);
  const auto first = static_cast<uint32_t>(out.files.size());
  for (dcp::StoredEntry& entry : whole.tensors) {
    for (dcp::StoredChunk& chunk : entry.chunks) chunk.file += first;
    const auto found = known.find(entry.key);
    if (found == known.end()) {
      out.tensors.push_back(std::move(entry));
      continue;
    }
    dcp::StoredEntry& shards = out.tensors[found->second];
    if (shards.shape != entry.shape || shards.dtype != entry.dtype)
      return Corrupt("{} {} in a whole file, {} {} in the shards", Name(entry.dtype),
                     ShapeText(entry.shape), Name(shards.dtype), ShapeText(shards.shape))
          .in(path)
          .on(entry.key);
    std::ranges::move(entry.chunks, std::back_inserter(shards.chunks));
  }
  std::ranges::move(whole.files, std::back_inserter(out.files));
  return OkStatus();
}

Status OpenWeights(const std::string& path, const Looker& look, dcp::Folder& out) {
  NXDKIT_ASSIGN(const WeightsIn where, FindWeights(path, look));
  if (where == WeightsIn::kShardsBelow) {
    NXDKIT_ASSIGN(dcp::Folder below, dcp::OpenShards(JoinPath(path, kShardedBelow), look));
    AppendFolder(kShardedBelow, std::move(below), out);
    return AddWholeCopies(path, look, out);
  }
  NXDKIT_ASSIGN(dcp::Folder weights, where == WeightsIn::kShards ? dcp::OpenShards(path, look)
                                                                 : OpenWholeFiles(path, look));
  AppendFolder("", std::move(weights), out);
  return OkStatus();
}

// Makes the keys that torch makes of nested dicts, and of lists that contain such.
class Flattener {
 public:
  Flattener(const torch::Archive& archive, dcp::WholeArchive& out)
      : out_(out), left_(archive.file_bytes) {}

  Status Add(const std::string& key, const torch::PickleValue& value, int depth = 0) {
    if (const torch::PickleDict* dict = value.dict(); dict && depth < kMaxStateDepth) {
      for (const auto& [name, item] : *dict) {
        NXDKIT_ASSIGN(const std::string part, PartOf(name));
        NXDKIT_TRY(Add(key + "." + part, item, depth + 1));
      }
      return OkStatus();
    }
    const torch::PickleList* list = value.list();
    if (list && !list->empty() && list->front().dict() && depth < kMaxStateDepth) {
      for (size_t i = 0; i < list->size(); ++i)
        NXDKIT_TRY(Add(fmt::format("{}.{}", key, i), (*list)[i], depth + 1));
      return OkStatus();
    }
    // Each takes a byte or more of the file; a dict shared by many takes none.
    if (left_-- == 0) return Unsupported("more values than the file has bytes: dicts are shared");
    out_.AddAny(key, value);
    return OkStatus();
  }

 private:
  static Result<std::string> PartOf(const torch::PickleValue& name) {
    if (name.string()) return *name.string();
    if (const int64_t* number = name.integer()) return std::to_string(*number);
    return Corrupt("a key of the optimizer's state is neither a name nor a number");
  }

  dcp::WholeArchive& out_;
  uint64_t left_;
};

Result<dcp::Folder> OpenWholeState(const std::string& file) {
  NXDKIT_ASSIGN(const torch::Archive archive, torch::ReadArchive(file));
  const torch::PickleValue* state = archive.root.dict() ? archive.root.Find("optimizer") : nullptr;
  if (!state || !state->dict()) return Corrupt("no dict under \"optimizer\"").in(file);
  dcp::Folder out;
  dcp::WholeArchive into(archive, out);
  NXDKIT_TRY(Flattener(archive, into).Add("optimizer", *state).in(file));
  return out;
}

// Removes the keys of another checkpoint.
void KeepOptimizer(dcp::Folder& folder) {
  const auto is_other = [](const auto& entry) {
    return !entry.key.starts_with(training::kOptimizerPrefix) && !entry.key.starts_with("nxdkit.");
  };
  const size_t before = folder.tensors.size() + folder.metadata.objects.size();
  std::erase_if(folder.tensors, is_other);
  std::erase_if(folder.metadata.objects, is_other);
  const size_t others = before - folder.tensors.size() - folder.metadata.objects.size();
  if (others > 0)
    AddWarning(folder,
               fmt::format("{} keys in the folder {} are not the optimizer's and are left out",
                           others, kOptimizerBeside));
}

Result<dcp::Folder> OpenState(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool saved, look.HasFile(path, dcp::kMetadataFile));
  NXDKIT_ASSIGN(const bool whole, look.HasFile(path, kWholeState));
  Result<dcp::Folder> state =
      !saved && whole ? OpenWholeState(JoinPath(path, kWholeState)) : dcp::Open(path, look);
  if (!state.ok())
    return std::move(state).error().hint(
        "the weights alone are read where the optimizer's folder is moved away");
  KeepOptimizer(*state);
  return state;
}

// Adds the Trainer's count where torch's checkpoints have theirs.
Status AddStep(const std::string& path, const Looker& look, dcp::Folder& out) {
  NXDKIT_ASSIGN(const bool there, look.HasFile(path, training::kTrainerStateFile));
  if (!there) return OkStatus();
  const std::string file = JoinPath(path, training::kTrainerStateFile);
  const Result<Json> state = ReadJsonFile(file, kMaxTrainerState, kLikePython);
  if (!state.ok() && state.error().code() == Errc::kIo) return state.error();
  const Result<int64_t> step =
      state.ok() && state->is_object() ? JsonInt(*state, "global_step") : Result<int64_t>(-1);
  if (step.ok() && *step >= 0)
    out.metadata.objects.push_back({training::kTrainStepKey, {}, torch::PickleValue{*step}});
  else
    AddWarning(out, file + " is left out: it has no global_step");
  return OkStatus();
}

Status WarnOfRandomStates(const std::string& path, const Looker& look, dcp::Folder& out) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListFolder(path));
  const auto count = std::ranges::count_if(names, [](const std::string& name) {
    return name.starts_with("rng_state") && name.ends_with(".pth");
  });
  if (count > 0)
    dcp::AddWarning(
        out, fmt::format("the random states in rng_state*.pth, which belong to {} {}, are left out",
                         count, count == 1 ? "process" : "ranks"));
  return OkStatus();
}

}  // namespace

Result<bool> IsTransformersFolder(const std::string& path, const Looker& look) {
  const std::string state = JoinPath(path, kOptimizerBeside);
  NXDKIT_ASSIGN(const bool folder, look.IsFolder(state));
  if (!folder) return false;
  // A save that did not finish counts too: it is refused, not ignored.
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListFolder(state));
  const bool saved = std::ranges::any_of(names, [](const std::string& name) {
    return name == dcp::kMetadataFile || name == kWholeState || name.ends_with(".distcp");
  });
  if (!saved) return false;
  NXDKIT_ASSIGN(const WeightsIn where, FindWeights(path, look));
  return where != WeightsIn::kNowhere;
}

Result<dcp::Folder> OpenTransformers(const std::string& path, const Looker& look) {
  dcp::Folder out;
  out.path = path;
  out.form = dcp::FolderForm::kTransformers;
  NXDKIT_TRY(OpenWeights(path, look, out));
  NXDKIT_ASSIGN(dcp::Folder state, OpenState(JoinPath(path, kOptimizerBeside), look));
  AppendFolder(kOptimizerBeside, std::move(state), out);
  NXDKIT_TRY(AddSchedulerFile(path, look, out));
  NXDKIT_TRY(AddStep(path, look, out));
  NXDKIT_TRY(WarnOfRandomStates(path, look, out));
  return out;
}

}  // namespace nxdkit::kinds
