#include "formats/training/keep_params.h"

#include <fmt/core.h>

#include <utility>

#include "lib/base/errors.h"

namespace nxdkit::training {
namespace {

// The new numbers of the parameters that are kept.
std::vector<uint32_t> Numbers(const std::vector<bool>& keep) {
  std::vector<uint32_t> numbers(keep.size(), 0);
  uint32_t next = 0;
  for (size_t i = 0; i < keep.size(); ++i) {
    numbers[i] = next;
    if (keep[i]) ++next;
  }
  return numbers;
}

std::string BytesOf(Dtype dtype, double value) {
  std::string bytes(static_cast<size_t>(ElementBytes(dtype)), '\0');
  std::byte* to = reinterpret_cast<std::byte*>(bytes.data());
  const auto put = [&](auto number) {
    std::copy_n(reinterpret_cast<const std::byte*>(&number), sizeof number, to);
  };
  if (Info(dtype).floating)
    ConvertElements(Dtype::kF64, reinterpret_cast<const std::byte*>(&value), dtype, to, 1);
  else if (dtype == Dtype::kI64)
    put(static_cast<int64_t>(value));
  else if (dtype == Dtype::kI32)
    put(static_cast<int32_t>(value));
  return bytes;
}

}  // namespace

void KeepParams(BoundArtifact& artifact, const std::vector<bool>& keep) {
  const std::vector<uint32_t> params = Numbers(keep);
  std::vector<LogicalTensor> kept;
  for (size_t i = 0; i < keep.size(); ++i)
    if (keep[i]) kept.push_back(std::move(artifact.params[i]));
  artifact.params = std::move(kept);
  BoundLayout bound;
  bound.layout.files = std::move(artifact.bound.layout.files);
  std::vector<size_t> places;
  for (size_t t = 0; t < artifact.bound.stored.size(); ++t) {
    places.push_back(bound.stored.size());
    TensorLayout& tensor = artifact.bound.layout.tensors[t];
    if (!tensor.pieces.empty() && !keep[tensor.pieces.front().param]) continue;
    for (Piece& piece : tensor.pieces) piece.param = params[piece.param];
    bound.Add(std::move(tensor), std::move(artifact.bound.stored[t]));
  }
  artifact.bound = std::move(bound);
  std::erase_if(artifact.run, [&](RunTensor& tensor) { return !keep[tensor.param]; });
  for (RunTensor& tensor : artifact.run) tensor.param = params[tensor.param];
  if (!artifact.optimizer) return;
  ForEachEntry(*artifact.optimizer, [&](OptimizerEntry& entry) {
    if (entry.kind == OptimizerEntry::Kind::kValue) return;
    entry.param = params[entry.param];
    entry.stored = places[entry.stored];
  });
}

void StoreScalar(BoundArtifact& artifact, uint32_t param, OptimizerEntry& entry, Dtype dtype,
                 double value) {
  const std::string path = artifact.artifact.path;
  const auto file = static_cast<uint32_t>(artifact.bound.layout.files.size());
  artifact.bound.layout.files.push_back({path, -1, -1});
  entry.kind = OptimizerEntry::Kind::kScalar;
  entry.dtype = dtype;
  entry.param = static_cast<uint32_t>(artifact.params.size());
  entry.stored = artifact.bound.stored.size();
  const std::string name = artifact.params[param].name + "/" + entry.name;
  artifact.params.push_back({name, {}, 0, 0});
  artifact.bound.Add(WholeTensor(name, file, entry.param, {}),
                     {name, dtype, {}, {}, 0, false, InMemoryStorage(BytesOf(dtype, value), path)});
}

Result<double> ScalarOf(const BoundArtifact& artifact, const OptimizerEntry& entry) {
  if (entry.kind == OptimizerEntry::Kind::kValue) {
    if (const int64_t* whole = entry.value.integer()) return static_cast<double>(*whole);
    if (const double* number = std::get_if<double>(&entry.value.value)) return *number;
  }
  if (entry.kind == OptimizerEntry::Kind::kScalar)
    return ReadScalar(artifact.bound.stored[entry.stored]);
  return Unsupported("{} is not a number", entry.name);
}

Status ChangeSteps(BoundArtifact& artifact, const ChangeStep& change) {
  constexpr auto kScalar = OptimizerEntry::Kind::kScalar;
  std::vector<bool> keep(artifact.params.size(), true);
  for (uint32_t i = 0; i < artifact.optimizer->entries.size(); ++i) {
    if (!artifact.optimizer->entries[i]) continue;
    for (OptimizerEntry& entry : *artifact.optimizer->entries[i]) {
      if (entry.name != "step") continue;
      const auto placed = [&](Status status) {
        return std::move(status).in(artifact.artifact.path).on(artifact.params[i].name);
      };
      const OptimizerEntry before = entry;
      const Result<double> step = ScalarOf(artifact, entry);
      NXDKIT_TRY(placed(step.ok() ? change(i, entry, *step) : Status(step.error())));
      const bool stays = entry.kind == kScalar && entry.param == before.param;
      if (before.kind == kScalar && !stays) keep[before.param] = false;
    }
  }
  keep.resize(artifact.params.size(), true);
  KeepParams(artifact, keep);
  return OkStatus();
}

std::string NameSome(const BoundArtifact& artifact, const std::vector<size_t>& params) {
  if (params.empty()) return "no parameter";
  const std::string& first = artifact.params[params.front()].name;
  if (params.size() == 1) return first;
  return fmt::format("{} and {} other parameter{}", first, params.size() - 1,
                     params.size() == 2 ? "" : "s");
}

void LeaveRun(BoundArtifact& artifact) {
  std::vector<bool> keep(artifact.params.size(), true);
  for (const RunTensor& tensor : artifact.run) keep[tensor.param] = false;
  KeepParams(artifact, keep);
}

void LeaveState(BoundArtifact& artifact, std::string_view why) {
  if (!artifact.optimizer && artifact.run.empty() && artifact.run_objects.empty()) return;
  std::vector<bool> keep(artifact.params.size(), false);
  std::fill_n(keep.begin(), artifact.model_params(), true);
  artifact.optimizer.reset();
  KeepParams(artifact, keep);
  artifact.run_objects.clear();
  artifact.artifact.warnings.push_back(fmt::format("the optimizer's state is left out: {}", why));
}

}  // namespace nxdkit::training
