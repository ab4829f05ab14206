#include "formats/kinds/torch/facts_torch.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "formats/nxd/shard_set.h"
#include "formats/torch/archive.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/paths.h"

namespace nxdkit::kinds {
namespace {

using torch::PickleDict;
using torch::PickleList;
using torch::PickleValue;

// A name repeats the keys above it, so names can be far longer than the file.
constexpr uint64_t kMaxNameBytes = 256 << 20;

bool IsPlain(const PickleValue& value) {
  return value.tensor() == nullptr && value.reference() == nullptr && value.dict() == nullptr &&
         value.list() == nullptr;
}

// The tensors of a tree of values, named by their place: "base_state.0.exp_avg", "groups[1].t".
// Recursion is bounded: ReadArchive refuses values that are nested too deep.
class TreeWalk {
 public:
  explicit TreeWalk(const torch::Archive& archive) : archive_(archive) {}

  Status Walk(const PickleValue& value, const std::string& path) {
    name_bytes_ += path.size();
    if (name_bytes_ > kMaxNameBytes)
      return Unsupported("the places of the values need more than {} bytes of names", kMaxNameBytes)
          .in(archive_.path);
    if (value.tensor() != nullptr) {
      tensors.push_back(archive_.tensors.at(value.tensor()->index));
      tensors.back().name = path;
    }
    if (value.reference() != nullptr)
      references.push_back({path, fmt::format("tensor_{}.pt", value.reference()->tid)});
    NXDKIT_TRY(WalkDict(value.dict(), path));
    return WalkList(value.list(), path);
  }

  std::vector<StoredTensor> tensors;
  std::vector<TensorReference> references;

 private:
  Status WalkDict(const PickleDict* dict, const std::string& path) {
    if (dict == nullptr || !visited_.insert(dict).second) return OkStatus();
    for (const auto& [key, item] : *dict)
      if (!IsPlain(item))
        NXDKIT_TRY(Walk(item, path.empty() ? KeyText(key) : path + "." + KeyText(key)));
    return OkStatus();
  }

  Status WalkList(const PickleList* list, const std::string& path) {
    if (list == nullptr || !visited_.insert(list).second) return OkStatus();
    for (size_t i = 0; i < list->size(); ++i)
      if (!IsPlain((*list)[i])) NXDKIT_TRY(Walk((*list)[i], fmt::format("{}[{}]", path, i)));
    return OkStatus();
  }

  static std::string KeyText(const PickleValue& key) {
    if (key.string() != nullptr) return *key.string();
    if (key.integer() != nullptr) return fmt::format("{}", *key.integer());
    return "?";
  }

  const torch::Archive& archive_;
  // Shared containers are walked once: the first place counts.
  std::unordered_set<const void*> visited_;
  uint64_t name_bytes_ = 0;
};

// The description of a tree of values, by its top.
std::string TreeDescription(const PickleValue& root) {
  if (root.tensor() != nullptr) return "torch archive of one tensor";
  if (root.Find("base_state") != nullptr || root.Find("shape_info") != nullptr)
    return "torch archive of a ZeRO-1 optimizer's state";
  if (root.Find("state") != nullptr && root.Find("param_groups") != nullptr)
    return "torch archive of an optimizer's state";
  return "torch archive of nested values";
}

bool HoldsTensors(const PickleValue& value) {
  if (value.tensor() != nullptr || value.reference() != nullptr) return true;
  return value.dict() != nullptr &&
         std::ranges::any_of(*value.dict(), [](const auto& item) { return !IsPlain(item.second); });
}

// Keys of the top dict whose values hold no tensors: "epoch".
std::vector<std::string> OtherEntries(const PickleValue& root) {
  std::vector<std::string> names;
  if (root.dict() == nullptr) return names;
  for (const auto& [key, value] : *root.dict())
    if (key.string() != nullptr && !HoldsTensors(value) && value.list() == nullptr)
      names.push_back(*key.string());
  return names;
}

// Resolves the tensors that a main file of an xser set refers to, with the reader of such sets.
Status ResolveReferences(Survey& survey, const std::string& path) {
  NXDKIT_ASSIGN(nxd::ShardSet set, nxd::ReadMainFile(path));
  survey.artifact.files.push_back(std::move(set.shards.front().tensors));
  survey.entries = std::move(set.skipped);
  return OkStatus();
}

void AddTree(Survey& survey, const torch::Archive& archive, TreeWalk& walk) {
  survey.artifact.files.push_back(
      {archive.path, archive.format, archive.file_bytes, std::move(walk.tensors), {}});
  survey.entries = OtherEntries(archive.root);
}

void MakeShard(Survey& survey, const char* description) {
  survey.form = "nxd_shard";
  survey.description = description;
  survey.not_checked = "one rank's file; the whole folder can be checked";
}

void AddReferences(Survey& survey, const torch::Archive& archive, TreeWalk& walk) {
  MakeShard(
      survey,
      survey.rank
          ? "main file of an NxD shard saved with xser: its tensors are in files of their own"
          : "main file of torch_xla's serialization (xser): its tensors are in files of their own");
  const Status resolved = ResolveReferences(survey, archive.path);
  if (resolved.ok()) return;
  survey.warnings.push_back("the tensors cannot be shown: " + resolved.error().ToString());
  survey.references = std::move(walk.references);
  AddTree(survey, archive, walk);
}

void AddTensors(Survey& survey, const torch::Archive& archive, TreeWalk& walk) {
  Result<TensorFile> flat = torch::FlattenStateDict(archive);
  if (!flat.ok() || flat->tensors.size() != walk.tensors.size()) {
    survey.form = "torch_tree";
    survey.description = TreeDescription(archive.root);
    survey.not_checked = "not a state dict of a model";
    return AddTree(survey, archive, walk);
  }
  survey.artifact.files.push_back(*std::move(flat));
  survey.entries = OtherEntries(archive.root);
  if (survey.rank) return MakeShard(survey, "one shard of an NxD training set");
  survey.form = kTorch.name;
  survey.description = "torch state dict";
}

// "checkpoint_epoch_3.pt", the usual name for xm.save, is of epoch 3.
std::optional<int64_t> EpochOf(std::string_view name) {
  constexpr std::string_view kBefore = "checkpoint_epoch_", kAfter = ".pt";
  if (!name.starts_with(kBefore) || !name.ends_with(kAfter)) return std::nullopt;
  name.remove_prefix(kBefore.size());
  name.remove_suffix(std::min(name.size(), kAfter.size()));
  const std::optional<int64_t> epoch = ParseNumber<int64_t>(name);
  return epoch && *epoch >= 0 ? epoch : std::nullopt;
}

bool IsProgram(const Error& error) {
  return error.code() == Errc::kUnsupported && error.member().ends_with("/constants.pkl");
}

}  // namespace

Status DescribeTorch(Survey& survey, const std::string& path, const InputHints& hints) {
  NXDKIT_TRY(CheckHints(kTorch, path, hints));
  Artifact& artifact = survey.artifact;
  artifact.kind = &kTorch;
  artifact.path = path;
  Result<torch::Archive> archive = torch::ReadArchive(path);
  if (!archive.ok() && IsProgram(archive.error())) {
    survey.form = kTorchProgram;
    return OkStatus();
  }
  if (!archive.ok()) return std::move(archive).error();
  artifact.warnings = archive->warnings;
  NXDKIT_ASSIGN(const std::optional<nxd::ShardFile> shard, nxd::ShardOfPath(path));
  if (shard) survey.rank = FileRank{shard->tp, shard->pp, shard->ep};
  TreeWalk walk(*archive);
  NXDKIT_TRY(walk.Walk(archive->root, ""));
  const auto add = walk.references.empty() ? AddTensors : AddReferences;
  add(survey, *archive, walk);
  if (const std::optional<int64_t> epoch = EpochOf(BaseName(path)))
    survey.description = fmt::format("checkpoint of epoch {}, as training loops write it: {}",
                                     *epoch, survey.description);
  for (const TensorFile& file : artifact.files) artifact.ranks.push_back({file.path, -1, -1});
  return LoadConfig(artifact, hints, {ParentPath(path)});
}

Result<TensorFile> ReadTreeOfTensors(const std::string& path) {
  Survey survey;
  NXDKIT_TRY(DescribeTorch(survey, path, {}));
  if (survey.form == kTorchProgram || !survey.references.empty())
    return Unsupported("the tensors of this file cannot be read").in(path);
  NXDKIT_CHECK(survey.artifact.files.size() == 1);
  return std::move(survey.artifact.files.front());
}

}  // namespace nxdkit::kinds
