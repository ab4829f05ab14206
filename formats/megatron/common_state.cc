#include "formats/megatron/common_state.h"

#include <algorithm>

#include "formats/dcp/item_folder.h"
#include "formats/dtensor/rank_values.h"
#include "formats/torch/archive.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::megatron {
namespace {

using torch::PickleDict;
using torch::PickleValue;

constexpr char kCommonFile[] = "common.pt";
constexpr std::string_view kCommonKey = "common_state/shard_0_1";
constexpr const char* kOptions[] = {"lr", "betas", "eps", "weight_decay"};

bool IsScalar(const PickleValue& value) {
  return value.integer() || value.string() || std::holds_alternative<bool>(value.value) ||
         std::holds_alternative<double>(value.value);
}

std::optional<double> NumberIn(const PickleValue* value) {
  return value ? value->number() : std::nullopt;
}

bool IsSet(const PickleValue& group, std::string_view name) {
  const PickleValue* value = group.Find(name);
  const bool* flag = value ? std::get_if<bool>(&value->value) : nullptr;
  return flag && *flag;
}

// A value that is an object of the checkpoint is inside a list.
const PickleValue& Unlisted(const PickleValue& root) {
  return root.list() && root.list()->size() == 1 ? root.list()->front() : root;
}

// Adds the groups of an optimizer's dict.
void AddGroups(const PickleValue& optimizer, std::vector<OptionGroup>& out) {
  const PickleValue* list = optimizer.Find("param_groups");
  if (!list || !list->list()) return;
  for (const PickleValue& group : *list->list()) {
    if (!group.dict()) continue;
    OptionGroup read;
    for (const char* name : kOptions)
      if (const PickleValue* value = group.Find(name); value && dtensor::IsPlain(*value))
        read.options.push_back({PickleValue{std::string(name)}, *value});
    read.step = NumberIn(group.Find("step"));
    const auto multiplier = NumberIn(group.Find("wd_mult"));
    read.decays = !multiplier || *multiplier != 0;
    read.experts = IsSet(group, "is_expert_parallel");
    read.decoupled = IsSet(group, "is_decoupled_lr");
    out.push_back(std::move(read));
  }
}

class Reader {
 public:
  Reader(const torch::Archive& archive, CommonState& out) : archive_(archive), out_(out) {}

  Status Run() {
    const PickleValue& root = Unlisted(archive_.root);
    if (!root.dict()) return Corrupt("found no dict");
    ReadArgs(root.Find("args"));
    if (const PickleValue* iteration = root.Find("iteration"); iteration && iteration->integer())
      out_.iteration = *iteration->integer();
    if (const PickleValue* optimizer = root.Find("optimizer"))
      NXDKIT_TRY(ReadOptimizer(*optimizer));
    return OkStatus();
  }

 private:
  void ReadArgs(const PickleValue* args) {
    const torch::PickleRecord* record = args ? args->record() : nullptr;
    const PickleDict* dict = args ? args->dict() : nullptr;
    if (record && record->state) dict = record->state->dict();
    if (!dict) return;
    out_.has_args = true;
    for (const auto& [key, value] : *dict)
      if (key.string() && IsScalar(value)) out_.args.emplace(*key.string(), value);
  }

  // One optimizer, or, for several, a dict by number.
  Status ReadOptimizer(const PickleValue& optimizer) {
    if (!optimizer.dict()) return OkStatus();
    for (const auto& [key, value] : *optimizer.dict())
      if (key.integer()) NXDKIT_TRY(ReadOne(value));
    return ReadOne(optimizer);
  }

  Status ReadOne(const PickleValue& optimizer) {
    // The optimizer of an F32 model is not wrapped in another one.
    const PickleValue* inner = optimizer.Find("optimizer");
    if (!inner && optimizer.Find("param_groups")) inner = &optimizer;
    if (!inner || !inner->dict()) return OkStatus();
    AddGroups(*inner, out_.groups);
    const PickleValue* state = inner->Find("state");
    const PickleValue* step = state && state->dict() ? state->Find("common_step") : nullptr;
    if (!step) return OkStatus();
    out_.step = NumberIn(step);
    if (const torch::TensorIndex* index = step->tensor()) {
      NXDKIT_ASSIGN(out_.step, ReadSingle(archive_.tensors.at(index->index)));
    }
    return OkStatus();
  }

  const torch::Archive& archive_;
  CommonState& out_;
};

}  // namespace

std::optional<int64_t> CommonState::Number(std::string_view name) const {
  const auto found = args.find(name);
  if (found == args.end() || !found->second.integer()) return std::nullopt;
  return *found->second.integer();
}

std::optional<double> CommonState::Real(std::string_view name) const {
  const auto found = args.find(name);
  return found == args.end() ? std::nullopt : found->second.number();
}

std::optional<double> CommonState::CommonStep() const {
  if (step || groups.empty()) return step;
  const auto same = [&](const OptionGroup& group) { return group.step == groups.front().step; };
  return std::ranges::all_of(groups, same) ? groups.front().step : std::nullopt;
}

std::optional<bool> CommonState::Flag(std::string_view name) const {
  const auto found = args.find(name);
  if (found == args.end()) return std::nullopt;
  const bool* flag = std::get_if<bool>(&found->second.value);
  return flag ? std::optional(*flag) : std::nullopt;
}

Result<CommonState> ParseCommonState(const torch::Archive& archive) {
  CommonState out;
  NXDKIT_TRY(Reader(archive, out).Run());
  return out;
}

Result<CommonState> ReadCommonState(const std::string& path, const dcp::Folder& folder,
                                    const Looker& look) {
  constexpr auto kAny = torch::ReadOptions::Allowed::kAny;
  NXDKIT_ASSIGN(const bool there, look.HasFile(path, kCommonFile));
  if (there) {
    const std::string file = JoinPath(path, kCommonFile);
    NXDKIT_ASSIGN(const torch::Archive archive,
                  torch::ReadArchive(file, {.check_crc = true, .allowed = kAny}));
    NXDKIT_ASSIGN(CommonState out, ParseCommonState(archive).in(file));
    out.file = file;
    return out;
  }
  const auto& objects = folder.metadata.objects;
  const auto common = std::ranges::find(objects, kCommonKey, &dcp::ObjectEntry::key);
  if (common == objects.end()) return CommonState();
  const std::string file = JoinPath(folder.path, common->place.file);
  NXDKIT_ASSIGN(const torch::Archive archive, dcp::ReadItemArchive(folder, *common, kAny));
  NXDKIT_ASSIGN(CommonState out, ParseCommonState(archive).in(file).on(common->key));
  out.file = file;
  return out;
}

Status ReadBucketGroups(const dcp::Folder& folder, CommonState& state) {
  constexpr std::string_view kEnd = "optimizer.distributed.dp_group_idx_0.optimizer/shard_0_1";
  for (const dcp::ObjectEntry& object : folder.metadata.objects) {
    if (!object.key.ends_with(kEnd)) continue;
    NXDKIT_ASSIGN(const torch::Archive archive,
                  dcp::ReadItemArchive(folder, object, torch::ReadOptions::Allowed::kAny));
    AddGroups(Unlisted(archive.root), state.groups);
  }
  return OkStatus();
}

}  // namespace nxdkit::megatron
