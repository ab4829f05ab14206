#include "trainer/learner/training_tag.h"

#include <fmt/core.h>

#include <cmath>
#include <memory>
#include <utility>

#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "formats/ops/verify/checksums.h"
#include "lib/base/errors.h"

namespace nxdkit::trainer {
namespace {

using artifact::OptimizerEntry;
using torch::PickleValue;

PickleValue Text(const char* text) { return {std::string(text)}; }

torch::PickleDict ParamGroup(const OptimizerMemory& memory) {
  return {{Text("lr"), {memory.lr}},
          {Text("betas"), PickleValue::MakeList({{memory.betas[0]}, {memory.betas[1]}})},
          {Text("eps"), {memory.eps}},
          {Text("weight_decay"), {memory.weight_decay}},
          {Text("params"), PickleValue::MakeList({})}};
}

struct Binder {
  artifact::BoundArtifact& out;
  const models::Model& model;
  const OptimizerMemory& memory;
  artifact::BoundOptimizer optimizer = {};

  void Run() {
    optimizer.style = nxd::OptimizerStyle::kZero1;
    optimizer.order = {nxd::GroupRule::kOne, false};
    optimizer.keys = {"state", "param_groups", "base_state", "shape_info"};
    optimizer.groups = {ParamGroup(memory)};
    optimizer.entries.resize(model.params.size(), std::vector<OptimizerEntry>());
    optimizer.masters.resize(model.params.size());
    optimizer.group_of.resize(model.params.size(), 0);
    AddStep();
    for (const OptimizerMemory::Entry& entry : memory.entries)
      AddLike(entry.name, entry.ranks, [&](uint32_t i, const OptimizerEntry& made) {
        optimizer.entries[i]->push_back(made);
      });
    if (!memory.masters.empty()) {
      optimizer.keys.push_back(nxd::kMasterWeights);
      AddLike(nxd::kMasterWeights, memory.masters,
              [&](uint32_t i, const OptimizerEntry& made) { optimizer.masters[i] = made; });
    }
    out.optimizer = std::move(optimizer);
  }

  // Adds one number for all, and one for every parameter.
  void AddStep() {
    // In torch's form: a tensor without dimensions.
    const std::shared_ptr<const Storage> storage = StorageOf({static_cast<float>(memory.step)});
    const uint32_t file = static_cast<uint32_t>(out.bound.layout.files.size());
    out.bound.layout.files.push_back({"memory of the optimizer", -1, -1});
    for (uint32_t i = 0; i < model.params.size(); ++i) {
      OptimizerEntry entry;
      entry.name = "step";
      entry.kind = OptimizerEntry::Kind::kScalar;
      entry.param = Number(i, "step", {});
      entry.stored = out.bound.stored.size();
      TensorLayout layout{out.params.back().name, file, {}, std::nullopt, {}, {}};
      AddWhole(layout, entry.param, {});
      StoredTensor stored;
      stored.name = layout.name;
      stored.storage = storage;
      out.bound.layout.tensors.push_back(std::move(layout));
      out.bound.stored.push_back(std::move(stored));
      optimizer.entries[i]->push_back(std::move(entry));
    }
  }

  template <typename Take>
  void AddLike(const std::string& name, const std::vector<RankMemory>& ranks, const Take& take) {
    const size_t first = out.bound.stored.size();
    std::vector<uint32_t> params;
    for (uint32_t i = 0; i < model.params.size(); ++i)
      params.push_back(Number(i, name, model.params[i].shape));
    BindMemory(model, params, ranks, out.bound);
    const std::vector<Slot>& slots = ranks.front().table->slots;
    for (size_t s = 0; s < slots.size(); ++s) {
      OptimizerEntry entry;
      entry.name = name;
      entry.param = params[slots[s].param];
      entry.stored = first + s;
      entry.dtype = ranks.front().dtype;
      take(slots[s].param, entry);
    }
  }

  uint32_t Number(uint32_t param, const std::string& name, Shape shape) {
    out.params.push_back({model.params[param].name + "/" + name, std::move(shape), 0, 0});
    return static_cast<uint32_t>(out.params.size() - 1);
  }
};

// The number of steps, which must be the same for all parameters.
Result<int64_t> ReadStep(const artifact::BoundArtifact& source, const models::Model& model) {
  std::optional<int64_t> found;
  for (uint32_t i = 0; i < model.params.size(); ++i) {
    const OptimizerEntry* entry = source.optimizer->Find(i, "step");
    float step = -1;
    if (entry && entry->kind == OptimizerEntry::Kind::kScalar && entry->dtype == Dtype::kF32) {
      const StoredTensor& stored = source.bound.stored[entry->stored];
      NXDKIT_TRY(stored.storage->ReadAt(stored.offset,
                                        std::as_writable_bytes(std::span(&step, size_t{1}))));
    }
    if (!(step >= 0 && step < 1e9f) || step != std::floor(step))
      return Corrupt("the optimizer's state has no whole step of it")
          .in(source.artifact.path)
          .on(model.params[i].name);
    if (found.value_or(static_cast<int64_t>(step)) != static_cast<int64_t>(step))
      return Corrupt("step {}, where others are at {}", step, *found)
          .in(source.artifact.path)
          .on(model.params[i].name);
    found = static_cast<int64_t>(step);
  }
  return found.value_or(0);
}

// Nothing else reveals a damaged element: most have only one copy.
Status CheckRecords(const artifact::Artifact& tag, const artifact::RunOptions& run) {
  NXDKIT_ASSIGN(const std::vector<artifact::Finding> damaged, ops::CheckChecksums(tag, run));
  if (damaged.empty()) return OkStatus();
  std::string message = damaged.front().message;
  if (damaged.size() > 1) message += fmt::format("; {} more files are damaged", damaged.size() - 1);
  return Error(Errc::kCorrupt, std::move(message))
      .in(damaged.front().file)
      .member(damaged.front().tensor);
}

}  // namespace

artifact::BoundArtifact BindTraining(const artifact::Artifact& base, const models::Model& model,
                                     const std::vector<RankMemory>& weights,
                                     const OptimizerMemory* optimizer) {
  artifact::BoundArtifact out;
  out.artifact.kind = &kinds::kHf;
  out.artifact.path = "memory of the trainer";
  out.artifact.side_folder = base.side_folder;
  out.artifact.config_path = base.config_path;
  out.artifact.config_text = base.config_text;
  out.artifact.config = base.config;
  out.model = model;
  out.params = model.Logical();
  BindMemory(model, OwnNumbers(model), weights, out.bound);
  if (optimizer) Binder{out, model, *optimizer}.Run();
  return out;
}

Status LoadTraining(const std::string& folder, const models::Model& model,
                    const std::vector<RankMemory>& weights, OptimizerMemory& optimizer,
                    const artifact::RunOptions& run) {
  artifact::InputHints hints;
  hints.optimizer = true;
  hints.Set("param-order", std::string(nxd::GroupRuleName(nxd::GroupRule::kOne)));
  NXDKIT_ASSIGN(const artifact::BoundArtifact source, kinds::OpenAndBind(folder, nullptr, hints));
  if (!source.optimizer)
    return Corrupt("there is no optimizer state: training cannot continue from it")
        .in(folder)
        .hint("use its weights as the model path of a new run");
  NXDKIT_TRY(CheckRecords(source.artifact, run));
  NXDKIT_TRY(LoadWeights(source, model, weights, run));
  // A run in f32 that continues one in bf16 uses the full precision that was kept.
  const bool kept = source.optimizer->Find(0, nxd::kMasterWeights) != nullptr;
  if (kept && optimizer.masters.empty() && weights.front().dtype == Dtype::kF32)
    NXDKIT_TRY(LoadEntry(source, model, nxd::kMasterWeights, weights, run));
  for (const OptimizerMemory::Entry& entry : optimizer.entries)
    NXDKIT_TRY(LoadEntry(source, model, entry.name, entry.ranks, run));
  // If the state is kept by names, the weights are the master weights, unless there are separate
  // ones.
  const bool named = source.optimizer->style == nxd::OptimizerStyle::kNamed && !kept;
  if (!optimizer.masters.empty())
    NXDKIT_TRY(named ? LoadWeights(source, model, optimizer.masters, run)
                     : LoadEntry(source, model, nxd::kMasterWeights, optimizer.masters, run));
  NXDKIT_ASSIGN(optimizer.step, ReadStep(source, model));
  return OkStatus();
}

}  // namespace nxdkit::trainer
