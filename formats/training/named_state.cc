#include "formats/training/named_state.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "formats/training/check_adam.h"
#include "formats/training/check_masters.h"
#include "formats/training/keep_params.h"
#include "formats/training/numbered_form.h"
#include "lib/base/errors.h"

namespace nxdkit::training {
namespace {

using EntryKind = OptimizerEntry::Kind;

constexpr const char* kMoments[] = {"exp_avg", "exp_avg_sq"};
// torch counts in F32: beyond this, adding one to a step does not change it.
constexpr double kMostSteps = 1 << 24;

struct Namer {
  BoundArtifact& source;
  std::vector<std::string>& notes;
  BoundOptimizer& optimizer = *source.optimizer;

  Status Run() {
    optimizer.form = FormOf(source);
    NXDKIT_TRY(CheckAdam(source));
    NXDKIT_TRY(StoreSteps());
    FillMissing();
    NXDKIT_TRY(FoldMasters());
    optimizer.style = nxd::OptimizerStyle::kNamed;
    return OkStatus();
  }

  // For a checkpoint with master weights next to its weights.
  Status RunBeside() {
    const auto has = [](const auto& master) { return master.has_value(); };
    return std::ranges::any_of(optimizer.masters, has) ? FoldMasters() : OkStatus();
  }

  // For a checkpoint by names: treats its state as Run treats a tag's.
  Status RunNamed() {
    NXDKIT_TRY(RunBeside());
    NXDKIT_TRY(ChangeSteps(source, [&](uint32_t i, OptimizerEntry& entry, double step) {
      const bool fits = step >= 0 && step < kMostSteps;
      if (entry.kind != EntryKind::kScalar || (fits && entry.dtype != Dtype::kF32))
        StoreScalar(source, i, entry, fits ? Dtype::kF32 : Dtype::kF64, step);
      return OkStatus();
    }));
    if (CheckAdam(source).ok()) FillMissing();
    return OkStatus();
  }

  // Stores every step as a tensor of F32.
  Status StoreSteps() {
    return ChangeSteps(source, [&](uint32_t i, OptimizerEntry& entry, double step) -> Status {
      if (!(step >= 0 && step < kMostSteps))
        return Unsupported("step {} cannot be counted on in F32, as torch does", step);
      if (entry.kind != EntryKind::kScalar || entry.dtype != Dtype::kF32)
        StoreScalar(source, i, entry, Dtype::kF32, step);
      return OkStatus();
    });
  }

  // Before its first step a parameter has no state; Adam begins with zeros.
  void FillMissing() {
    std::vector<size_t> missing;
    // Tensors carried next to the model's parameters are not trained.
    const size_t trained = optimizer.entries.size() - source.carried.size();
    for (uint32_t i = 0; i < trained; ++i) {
      if (optimizer.entries[i]) continue;
      missing.push_back(i);
      std::vector<OptimizerEntry> entries(1);
      entries[0].name = "step";
      StoreScalar(source, i, entries[0], Dtype::kF32, 0);
      for (const char* name : kMoments) entries.push_back(StoreZeros(i, name));
      optimizer.entries[i] = std::move(entries);
    }
    if (!missing.empty())
      notes.push_back(
          fmt::format("no state yet for {}: zeros and step 0 are written, as Adam starts",
                      NameSome(source, missing)));
  }

  OptimizerEntry StoreZeros(uint32_t param, const char* name) {
    OptimizerEntry entry;
    entry.name = name;
    entry.dtype = Dtype::kF32;
    entry.param = static_cast<uint32_t>(source.params.size());
    entry.stored = source.bound.stored.size();
    LogicalTensor logical = source.params[param];
    logical.name += std::string("/") + name;
    const auto file = static_cast<uint32_t>(source.bound.layout.files.size());
    source.bound.layout.files.push_back({source.artifact.path, -1, -1});
    StoredTensor zeros{logical.name,
                       Dtype::kF32,
                       logical.shape,
                       Shape(logical.shape.size(), 0),
                       0,
                       false,
                       InMemoryStorage(std::string(4, '\0'), source.artifact.path)};
    source.bound.Add(WholeTensor(logical.name, file, entry.param, logical.shape), std::move(zeros));
    source.params.push_back(std::move(logical));
    return entry;
  }

  // Weights in F32 are as good as master weights.
  bool HasRoundedWeights() const {
    for (size_t t = 0; t < source.bound.stored.size(); ++t) {
      const auto& pieces = source.bound.layout.tensors[t].pieces;
      const bool is_weight = !pieces.empty() && pieces.front().param < optimizer.entries.size();
      if (is_weight && source.bound.stored[t].dtype != Dtype::kF32) return true;
    }
    return false;
  }

  // For each parameter, whether its dtype has less precision than master weights: a buffer may have
  // more, or not be floating point.
  std::vector<bool> Narrow() const {
    std::vector<bool> narrow(source.params.size(), false);
    for (size_t t = 0; t < source.bound.stored.size(); ++t) {
      const Dtype dtype = source.bound.stored[t].dtype;
      for (const Piece& piece : source.bound.layout.tensors[t].pieces)
        narrow[piece.param] =
            Info(dtype).floating && ElementBytes(dtype) < ElementBytes(Dtype::kF32);
    }
    return narrow;
  }

  // Replaces the weights by the master weights that they were rounded from.
  Status FoldMasters() {
    const auto has = [](const auto& master) { return master.has_value(); };
    if (!std::ranges::any_of(optimizer.masters, has)) {
      if (HasRoundedWeights())
        notes.push_back("the tag has no master weights: their extra precision is lost");
      return OkStatus();
    }
    NXDKIT_ASSIGN(const MasterCheck check, SampleMasters(source));
    for (std::string& line : TextOf(check, source))
      source.artifact.warnings.push_back(std::move(line));
    std::vector<uint32_t> master_of(source.params.size(), UINT32_MAX);
    const std::vector<bool> is_narrow = Narrow();
    std::vector<size_t> without;
    for (uint32_t i = 0; i < optimizer.masters.size(); ++i)
      if (optimizer.masters[i])
        master_of[optimizer.masters[i]->param] = i;
      else if (is_narrow[i])
        without.push_back(i);
    const auto has_master = [&](uint32_t i) {
      return i < optimizer.masters.size() && optimizer.masters[i];
    };
    // Tensors of the weights are removed; those of their masters hold the weights now.
    std::vector<bool> keep(source.params.size(), true);
    const auto spare = static_cast<uint32_t>(source.params.size());  // marks those to remove
    keep.push_back(false);
    source.params.push_back({});
    for (TensorLayout& tensor : source.bound.layout.tensors)
      for (Piece& piece : tensor.pieces) {
        if (has_master(piece.param))
          piece.param = spare;
        else if (const uint32_t weight = master_of[piece.param]; weight != UINT32_MAX)
          piece.param = weight;
      }
    for (size_t i = 0; i < master_of.size(); ++i)
      if (master_of[i] != UINT32_MAX) keep[i] = false;
    optimizer.masters.assign(optimizer.masters.size(), std::nullopt);
    KeepParams(source, keep);
    WidenWeights(without);
    return OkStatus();
  }

  // Weights without a master weight are their own, in F32 like the others: training continues from
  // both alike.
  void WidenWeights(const std::vector<size_t>& without) {
    if (without.empty()) return;
    source.own_dtypes.resize(source.params.size());
    for (const size_t i : without) source.own_dtypes[i] = Dtype::kF32;
    source.artifact.warnings.push_back(
        fmt::format("{} of {} parameters have no master weight, unlike the others, and continue "
                    "from the weight itself, in F32: {}",
                    without.size(), optimizer.entries.size(), NameSome(source, without)));
  }
};

}  // namespace

Status ToNamedState(BoundArtifact& source, std::vector<std::string>& notes) {
  if (!source.optimizer) return OkStatus();
  const bool is_named = source.optimizer->style == nxd::OptimizerStyle::kNamed;
  return is_named ? Namer{source, notes}.RunBeside() : Namer{source, notes}.Run();
}

Status ToComparedState(BoundArtifact& source, std::vector<std::string>& notes) {
  if (!source.optimizer) return OkStatus();
  const bool is_named = source.optimizer->style == nxd::OptimizerStyle::kNamed;
  return is_named ? Namer{source, notes}.RunNamed() : Namer{source, notes}.Run();
}

}  // namespace nxdkit::training
