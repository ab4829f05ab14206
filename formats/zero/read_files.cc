#include "formats/zero/read_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "formats/dtensor/rank_values.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::zero {
namespace {

using torch::PickleDict;
using torch::PickleList;
using torch::PickleRecord;
using torch::PickleValue;

// The keys that DeepSpeed itself writes into a model's file.
constexpr std::string_view kOwnKeys[] = {"module",
                                         "buffer_names",
                                         "optimizer",
                                         "param_shapes",
                                         "frozen_param_shapes",
                                         "shared_params",
                                         "lr_scheduler",
                                         "data_sampler",
                                         "random_ltd",
                                         "frozen_param_fragments",
                                         "skipped_steps",
                                         "global_steps",
                                         "global_samples",
                                         "dp_world_size",
                                         "mp_world_size",
                                         "ds_config",
                                         "ds_version",
                                         "sparse_tensor_module_names",
                                         "csr_tensor_module_names",
                                         "sparse_segments",
                                         "checkpoint_parallel_dimensions",
                                         "universal_checkpoint_info"};

constexpr int64_t kMostElements = int64_t{1} << 60;  // the sum of a few fits

bool IsNone(const PickleValue* value) {
  return !value || std::holds_alternative<PickleValue::None>(value->value);
}

std::string NameOf(const PickleValue& key) { return key.string() ? *key.string() : std::string(); }

std::string StringAt(const PickleValue& root, std::string_view key) {
  const PickleValue* value = root.Find(key);
  return value && value->string() ? *value->string() : std::string();
}

Error Wrong(std::string_view key, std::string_view expected) {
  return Corrupt("{} is not {}", key, expected);
}

const torch::TorchSize* SizeIn(const PickleValue& value) {
  return std::get_if<torch::TorchSize>(&value.value);
}

Result<std::vector<NamedShape>> ShapesIn(const PickleValue& value, std::string_view key) {
  if (!value.dict()) return Wrong(key, "a dict of shapes");
  std::vector<NamedShape> out;
  for (const auto& [name, size] : *value.dict()) {
    if (!name.string() || !SizeIn(size)) return Wrong(key, "a dict of shapes");
    out.push_back({*name.string(), SizeIn(size)->dims});
    if (!ElementCount(out.back().shape))
      return Corrupt("{} is of shape {}", key, ShapeText(out.back().shape)).on(out.back().name);
  }
  return out;
}

Result<std::vector<int64_t>> NumbersIn(const PickleValue& value, std::string_view key) {
  std::vector<int64_t> out;
  const PickleList one = {value};
  for (const PickleValue& item : value.list() ? *value.list() : one) {
    const int64_t* number = item.integer();
    if (!number || *number < 0 || *number > kMostElements)
      return Wrong(key, "a list of numbers from 0 on");
    out.push_back(*number);
  }
  return out;
}

class ModelReader {
 public:
  explicit ModelReader(const torch::Archive& archive) : archive_(archive), root_(archive.root) {}

  Result<ModelFile> Read() {
    if (!root_.dict()) return Corrupt("not a dict: it is not a file of DeepSpeed's engine");
    NXDKIT_TRY(ReadModule());
    NXDKIT_TRY(ReadShapes());
    NXDKIT_TRY(ReadShared());
    FindShared();
    out_.has_optimizer = !IsNone(root_.Find("optimizer"));
    if (const PickleValue* names = root_.Find("buffer_names"); names && names->list())
      for (const PickleValue& name : *names->list()) out_.buffers.insert(NameOf(name));
    if (const PickleValue* schedule = root_.Find("lr_scheduler");
        schedule && schedule->dict() && dtensor::IsPlain(*schedule))
      out_.scheduler = *schedule;
    if (const PickleValue* steps = root_.Find("global_steps"); steps && steps->integer())
      out_.steps = *steps->integer();
    if (const PickleValue* world = root_.Find("dp_world_size"); world && world->integer())
      out_.world = *world->integer();
    out_.version = StringAt(root_, "ds_version");
    for (const auto& [key, value] : *root_.dict())
      if (std::ranges::find(kOwnKeys, NameOf(key)) == std::end(kOwnKeys))
        out_.others.push_back(key.string() ? *key.string() : "a key that is not a name");
    return std::move(out_);
  }

 private:
  Status ReadModule() {
    const PickleValue* module = root_.Find("module");
    if (!module) return Corrupt("no module: it is not a file of DeepSpeed's engine");
    if (IsNone(module))
      return Unsupported("it has no module: a pipeline of DeepSpeed keeps each layer by itself")
          .hint("have the trainer write a Hugging Face model");
    if (!module->dict()) return Wrong("module", "a dict of tensors");
    for (const auto& [name, value] : *module->dict()) {
      if (!name.string()) return Wrong("module", "a dict of names");
      if (const torch::TensorIndex* index = value.tensor())
        out_.module.push_back({*name.string(), archive_.tensors.at(index->index)});
      else if (std::holds_alternative<torch::OpaqueObject>(value.value))
        return Unsupported("a tensor of an unknown class").member("module").on(*name.string());
      else if (!IsNone(&value))
        out_.others.push_back("module." + *name.string());
    }
    return OkStatus();
  }

  Status ReadShapes() {
    if (const PickleValue* shapes = root_.Find("param_shapes"); !IsNone(shapes)) {
      // Releases before 0.4 have one group.
      PickleList list = shapes->list() ? *shapes->list() : PickleList{*shapes};
      out_.groups.emplace();
      for (const PickleValue& group : list) {
        NXDKIT_ASSIGN(std::vector<NamedShape> read, ShapesIn(group, "param_shapes"));
        out_.groups->push_back(std::move(read));
      }
    }
    if (const PickleValue* frozen = root_.Find("frozen_param_shapes"); !IsNone(frozen))
      NXDKIT_TRY(ShapesIn(*frozen, "frozen_param_shapes").To(out_.frozen));
    const PickleValue* parts = root_.Find("frozen_param_fragments");
    if (IsNone(parts)) return OkStatus();
    if (!parts->dict()) return Wrong("frozen_param_fragments", "a dict of tensors");
    for (const auto& [name, value] : *parts->dict()) {
      if (!name.string() || !value.tensor())
        return Wrong("frozen_param_fragments", "a dict of tensors");
      out_.frozen_parts.emplace(*name.string(), archive_.tensors.at(value.tensor()->index));
    }
    return OkStatus();
  }

  // A dict, or in older releases a list of pairs.
  Status ReadShared() {
    const PickleValue* shared = root_.Find("shared_params");
    if (IsNone(shared)) return OkStatus();
    const auto add = [&](const PickleValue& alias, const PickleValue& name) {
      if (!alias.string() || !name.string()) return false;
      out_.AddAlias(*alias.string(), *name.string());
      return true;
    };
    bool right = shared->dict() || shared->list();
    if (shared->dict())
      for (const auto& [alias, name] : *shared->dict()) right = right && add(alias, name);
    else if (shared->list())
      for (const PickleValue& pair : *shared->list())
        right = right && pair.list() && pair.list()->size() == 2 &&
                add((*pair.list())[0], (*pair.list())[1]);
    return right ? OkStatus() : Status(Wrong("shared_params", "a dict of names"));
  }

  // A module under two names is on no list: its tensors share their storage.
  void FindShared() {
    std::map<std::tuple<const Storage*, uint64_t, Shape>, std::string> seen;
    for (const NamedTensor& tensor : out_.module) {
      if (*ElementCount(tensor.stored.shape) == 0) continue;
      const auto [first, added] = seen.emplace(
          std::tuple(tensor.stored.storage.get(), tensor.stored.offset, tensor.stored.shape),
          tensor.name);
      if (!added && !out_.aliases.contains(tensor.name)) out_.AddAlias(tensor.name, first->second);
    }
  }

  const torch::Archive& archive_;
  const PickleValue& root_;
  ModelFile out_;
};

class OptimizerReader {
 public:
  explicit OptimizerReader(const torch::Archive& archive) : archive_(archive) {}

  Result<OptimizerFile> Read() {
    const PickleValue* state = archive_.root.Find("optimizer_state_dict");
    if (!state || !state->dict())
      return Corrupt("no optimizer_state_dict: it is not a file of a ZeRO optimizer");
    out_.version = StringAt(archive_.root, "ds_version");
    if (out_.version.empty()) out_.version = StringAt(*state, "ds_version");
    NXDKIT_TRY(ReadStage(*state));
    if (const PickleValue* count = state->Find("partition_count"); !IsNone(count))
      NXDKIT_TRY(NumbersIn(*count, "partition_count").To(out_.ranks));
    return out_.stage == 3 ? ReadStage3(*state) : ReadStage12(*state);
  }

 private:
  Status ReadStage(const PickleValue& state) {
    out_.stage = state.Find("fp32_flat_groups") ? 3 : 1;
    const PickleValue* said = state.Find("zero_stage");
    if (IsNone(said)) return OkStatus();
    // ZeroStageEnum(2), or a number in older releases.
    const PickleRecord* record = said->record();
    const int64_t* number = said->integer();
    if (record && record->arguments.size() == 1) number = record->arguments[0].integer();
    if (!number || *number < 1 || *number > 3) return Unsupported("zero_stage is not 1, 2 or 3");
    out_.stage = static_cast<int>(*number);
    out_.says_stage = true;
    return OkStatus();
  }

  Result<StoredTensor> FlatIn(const PickleValue& value, std::string_view key) const {
    const torch::TensorIndex* index = value.tensor();
    if (!index) return Wrong(key, "a list of flat tensors");
    const StoredTensor& stored = archive_.tensors.at(index->index);
    if (stored.shape.size() != 1 || !IsPacked(stored))
      return Corrupt("{} has a tensor of shape {}, expected a flat one", key,
                     ShapeText(stored.shape));
    return stored;
  }

  Status ReadMasters(const PickleValue* list, std::string_view key) {
    if (!list || !list->list())
      return Unsupported("{} is missing: DeepSpeed before 0.3.17 had another form", key);
    for (const PickleValue& value : *list->list()) {
      NXDKIT_ASSIGN(StoredTensor flat, FlatIn(value, key));
      out_.masters.push_back(std::move(flat));
    }
    out_.group_of.resize(out_.masters.size());
    std::iota(out_.group_of.begin(), out_.group_of.end(), size_t{0});
    return OkStatus();
  }

  // {"exp_avg": tensor, "step": a tensor without dimensions, or a number}
  Result<GroupState> StateIn(const PickleValue& value) const {
    if (!value.dict()) return Wrong("state", "a dict");
    GroupState out;
    NXDKIT_ASSIGN(out.step, StepIn(archive_, value));
    for (const auto& [name, item] : *value.dict()) {
      const std::string key = NameOf(name);
      if (key == "step") continue;
      const torch::TensorIndex* index = item.tensor();
      if (index && archive_.tensors.at(index->index).shape.size() == 1) {
        NXDKIT_ASSIGN(StoredTensor tensor, FlatIn(item, key));
        out.tensors.emplace(key, std::move(tensor));
      } else if (std::holds_alternative<torch::OpaqueObject>(item.value)) {
        return Unsupported("{} of the optimizer's state is of an unknown class", key);
      }
    }
    return out;
  }

  Status ReadOptions(const PickleValue& optimizer) {
    const PickleValue* groups = optimizer.Find("param_groups");
    if (!groups || !groups->list()) return OkStatus();
    for (const PickleValue& group : *groups->list()) {
      NXDKIT_ASSIGN(PickleValue read, WithNumbers(archive_, group));
      out_.options.push_back(std::move(read));
    }
    return OkStatus();
  }

  // {"state": {0: ...}, "param_groups": [...]} of torch, or a list of states (elastic_checkpoint).
  Status ReadBase(const PickleValue* base) {
    if (IsNone(base)) return OkStatus();
    if (base->list()) {
      for (const PickleValue& state : *base->list()) {
        NXDKIT_ASSIGN(GroupState read, StateIn(state));
        out_.states.push_back(std::move(read));
      }
      return OkStatus();
    }
    NXDKIT_TRY(ReadOptions(*base));
    return ReadStates(*base);
  }

  Status ReadStates(const PickleValue& optimizer) {
    const PickleValue* states = optimizer.Find("state");
    if (!states || !states->dict()) return Wrong("the optimizer's state", "a dict of numbers");
    if (states->dict()->empty()) return OkStatus();
    out_.states.resize(out_.masters.size());
    for (const auto& [number, state] : *states->dict()) {
      const int64_t* i = number.integer();
      if (!i || *i < 0 || static_cast<size_t>(*i) >= out_.states.size())
        return Corrupt("the optimizer has a state for a group that does not exist");
      NXDKIT_TRY(StateIn(state).To(out_.states[static_cast<size_t>(*i)]));
    }
    return OkStatus();
  }

  Result<OptimizerFile> ReadStage12(const PickleValue& state) {
    NXDKIT_TRY(ReadMasters(state.Find("single_partition_of_fp32_groups"),
                           "single_partition_of_fp32_groups"));
    NXDKIT_TRY(ReadBase(state.Find("base_optimizer_state")));
    if (const PickleValue* paddings = state.Find("group_paddings"); !IsNone(paddings))
      NXDKIT_TRY(NumbersIn(*paddings, "group_paddings").To(out_.paddings));
    const PickleValue* holes = state.Find("param_alignment_paddings");
    if (IsNone(holes)) return std::move(out_);
    if (!holes->list()) return Wrong("param_alignment_paddings", "a list of lists");
    for (const PickleValue& group : *holes->list()) {
      NXDKIT_ASSIGN(std::vector<int64_t> numbers, NumbersIn(group, "param_alignment_paddings"));
      out_.holes.push_back(std::move(numbers));
    }
    return std::move(out_);
  }

  Result<OptimizerFile> ReadStage3(const PickleValue& state) {
    if (state.Find("ds_zero_partition_groups"))
      return Unsupported("ds_zero_partition_groups: partitions of AutoEP are not read");
    NXDKIT_TRY(ReadMasters(state.Find("fp32_flat_groups"), "fp32_flat_groups"));
    const PickleValue* inner = state.Find("optimizer_state_dict");
    if (IsNone(inner)) return std::move(out_);
    NXDKIT_TRY(ReadOptions(*inner));
    NXDKIT_TRY(ReadStates(*inner));
    out_.group_of = GroupsOfFlats(out_.options, out_.masters.size());
    return std::move(out_);
  }

  const torch::Archive& archive_;
  OptimizerFile out_;
};

}  // namespace

std::vector<size_t> GroupsOfFlats(const PickleList& options, size_t flats) {
  std::vector<size_t> of(flats, options.size());
  for (size_t g = 0; g < options.size(); ++g) {
    const PickleValue* params = options[g].Find("params");
    if (!params || !params->list()) continue;
    for (const PickleValue& number : *params->list())
      if (number.integer() && *number.integer() >= 0 &&
          static_cast<size_t>(*number.integer()) < of.size())
        of[static_cast<size_t>(*number.integer())] = g;
  }
  return of;
}

Result<std::optional<double>> StepIn(const torch::Archive& archive, const PickleValue& state) {
  const PickleValue* step = state.Find("step");
  if (!step || !step->tensor()) return step ? step->number() : std::nullopt;
  NXDKIT_ASSIGN(const double number, ReadSingle(archive.tensors.at(step->tensor()->index)));
  return std::optional(number);
}

Result<PickleValue> WithNumbers(const torch::Archive& archive, const PickleValue& group) {
  if (!group.dict()) return Corrupt("a group of options that is not a dict");
  PickleDict out;
  for (const auto& [option, value] : *group.dict()) {
    PickleValue number = value;
    if (const torch::TensorIndex* index = value.tensor())
      NXDKIT_TRY(ReadSingle(archive.tensors.at(index->index)).To(number.value.emplace<double>()));
    out.emplace_back(option, std::move(number));
  }
  return PickleValue::MakeDict(std::move(out));
}

void ModelFile::AddAlias(const std::string& alias, const std::string& name) {
  if (aliases.emplace(alias, name).second) aliases_of[name].push_back(alias);
}

std::span<const std::string> ModelFile::AliasesOf(const std::string& name) const {
  const auto found = aliases_of.find(name);
  return found == aliases_of.end() ? std::span<const std::string>() : found->second;
}

Result<ModelFile> ReadModelFile(const torch::Archive& archive) {
  return ModelReader(archive).Read();
}

Result<OptimizerFile> ReadOptimizerFile(const torch::Archive& archive) {
  return OptimizerReader(archive).Read();
}

}  // namespace nxdkit::zero
