#include "formats/kinds/dcp/plan_transformers.h"

#include <iterator>
#include <utility>
#include <vector>

#include "formats/dcp/safetensors_folder.h"
#include "formats/kinds/dcp/plan_dcp.h"
#include "formats/kinds/dcp/read_dcp.h"
#include "formats/kinds/transformers_folder.h"
#include "formats/safetensors/encoder.h"
#include "formats/torch/encoder.h"
#include "formats/training/run_progress.h"
#include "lib/base/errors.h"
#include "lib/json/json.h"
#include "lib/json/json_parse.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

using Weights = std::vector<dcp::GlobalTensor>;

// A rank's part of the weights. Copies are stored once, by the first rank.
struct Shard {
  std::vector<TensorLayout> tensors;
  std::vector<std::pair<std::string, Shape>> begins;
};

std::vector<Shard> CutWeights(const Weights& weights, const dcp::Mesh& mesh) {
  std::vector<Shard> shards(static_cast<size_t>(mesh.ranks()));
  for (const dcp::GlobalTensor& weight : weights)
    for (const dcp::RankBox& part : dcp::CutOver(weight, mesh)) {
      Shard& shard = shards[static_cast<size_t>(part.rank)];
      shard.tensors.push_back(dcp::CutChunk(weight, part.box));
      shard.begins.push_back({weight.layout.name, part.box.lo});
    }
  return shards;
}

Status PlanShards(OutputBuilder& builder, const Weights& weights, const dcp::Mesh& mesh) {
  std::vector<Shard> shards = CutWeights(weights, mesh);
  for (size_t r = 0; r < shards.size(); ++r) {
    if (shards[r].tensors.empty()) continue;
    const int rank = static_cast<int>(r);
    NXDKIT_TRY(builder.AddSafetensors(dcp::ShardFileName(rank), rank, std::move(shards[r].tensors),
                                      dcp::ShardMetadata(shards[r].begins)));
  }
  return OkStatus();
}

// Takes the weights out of the contents, which leaves the contents of the optimizer's folder.
Weights TakeWeights(DcpContents& contents) {
  const auto end = static_cast<std::ptrdiff_t>(contents.weights);
  Weights weights(std::make_move_iterator(contents.tensors.begin()),
                  std::make_move_iterator(contents.tensors.begin() + end));
  contents.tensors.erase(contents.tensors.begin(), contents.tensors.begin() + end);
  contents.metadata.tensors.erase(contents.metadata.tensors.begin(),
                                  contents.metadata.tensors.begin() + end);
  contents.weights = 0;
  return weights;
}

Result<torch::PickleDict> ScheduleFor(const BoundArtifact& source, const RunProgress& progress) {
  if (DcpFolderOf(source.artifact)) return ScheduleOfCheckpoint(source, progress.last_epoch);
  return ScheduleAt(*source.optimizer, progress.last_epoch);
}

// Plans scheduler.pt as torch's LambdaLR loads it, and the step where the Trainer looks for it.
Status PlanRunFiles(OutputBuilder& builder) {
  const BoundArtifact& source = builder.source();
  const bool by_names = DcpFolderOf(source.artifact) != nullptr;
  NXDKIT_ASSIGN(const RunProgress progress,
                by_names ? ProgressOfCheckpoint(source) : ProgressOfTag(source));
  NXDKIT_ASSIGN(torch::PickleDict schedule, ScheduleFor(source, progress));
  NXDKIT_ASSIGN(
      std::string archive,
      torch::EncodeObject(torch::PickleValue::MakeDict(std::move(schedule))).in(kSchedulerFile));
  builder.plan.texts.push_back({kSchedulerFile, std::move(archive)});
  // A tag's trainer_state.json is in the run's folder, and may be of another step.
  const std::string& folder = source.artifact.folder;
  NXDKIT_ASSIGN(const bool has_state,
                by_names ? HasFile(folder, kTrainerStateFile) : Result<bool>(false));
  if (has_state) return builder.CarryFile(folder, kTrainerStateFile, kTrainerStateFile);
  const Json state = {{"global_step", progress.step}};
  builder.plan.texts.push_back({kTrainerStateFile, state.dump(1) + "\n"});
  return OkStatus();
}

}  // namespace

Status PlanTransformers(OutputBuilder& builder, const DcpOutput& output, DcpContents contents) {
  const Weights weights = TakeWeights(contents);
  NXDKIT_TRY(CheckChunkBytes(builder, output.mesh, weights));
  NXDKIT_TRY(PlanShards(builder, weights, output.mesh));
  NXDKIT_TRY(builder.CarrySideFiles());
  if (!builder.source().optimizer) return OkStatus();
  NXDKIT_TRY(PlanRunFiles(builder));
  return PlanDcpFolder(builder, std::move(contents), output.mesh, kOptimizerBeside);
}

}  // namespace nxdkit::kinds
