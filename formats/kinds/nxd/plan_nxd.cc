#include "formats/kinds/nxd/decide_nxd.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "formats/adapter/lora_config.h"
#include "formats/adapter/lora_forms.h"
#include "formats/kinds/builder.h"
#include "formats/kinds/nxd/nxd_state.h"
#include "formats/kinds/nxd/plan_optimizer.h"
#include "formats/nxd/optimizer_set.h"
#include "formats/nxd/optimum.h"
#include "formats/torch/encoder.h"
#include "formats/training/run_progress.h"
#include "lib/base/errors.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

constexpr uint64_t kMaxTrnConfigBytes = 1 << 20;

class NxdPlanner {
 public:
  NxdPlanner(const NxdOutput& output, OutputBuilder& builder)
      : source_(builder.source()), output_(output), builder_(builder) {}

  Status Run() {
    builder_.plan.texts.push_back({InTag("checkpoint"), "1"});
    if (source_.lora) {
      NXDKIT_ASSIGN(const std::string config, NxdLoraConfig(source_, output_.geometry));
      lora_config_ = PickleOfJson(config);
    }
    for (int t = 0; t < output_.geometry.tp; ++t)
      for (int e = 0; e < output_.geometry.ep; ++e) NXDKIT_TRY(PlanRank(t, e));
    NXDKIT_TRY(CheckCovered());
    if (output_.training_tag) NXDKIT_TRY(CarryTrainingFiles());
    if (output_.optimum) NXDKIT_TRY(PlanTrnConfig());
    NXDKIT_TRY(builder_.CarrySideFiles());
    const std::string dtype(builder_.dtypes().empty() ? "" : TorchName(builder_.dtypes().front()));
    builder_.plan.texts.push_back(
        {InTag("nxdkit.json"),
         nxd::WriteSidecar(output_.geometry, source_.model->config.family->model_type,
                           source_.model->config.family->digest, dtype, NXDKIT_VERSION,
                           output_.source_digest)});
    builder_.plan.texts.push_back({InTag("done"), "1"});
    return OkStatus();
  }

 private:
  // Every element of every parameter must be in the set, whatever the family's text says about cuts
  // and roles.
  Status CheckCovered() const {
    if (source_.lora) return OkStatus();
    const auto told = [&](Error error) {
      return std::move(error).hint(
          "the family's text gives it a cut or a role that no NxD set can hold");
    };
    auto places = PrimaryPlaces::Find(source_.params, builder_.plan.layout, true);
    if (!places.ok()) return told(std::move(places).error());
    for (uint32_t i = 0; i < source_.model->params.size(); ++i)
      if (places->of(i).empty())
        return told(
            Unsupported("the set would not have this parameter").on(source_.model->params[i].name));
    return OkStatus();
  }

  Result<std::vector<nxd::RankTensor>> NxdTensors(int t, int e) const {
    if (!source_.lora)
      return nxd::RankTensors(*source_.model, output_.geometry, t, output_.aliases, e);
    return nxd::LoraRankTensors(*source_.model, output_.geometry, source_.lora->pairs,
                                output_.dtype.value_or(Dtype::kF32), t);
  }

  // The path of a tag's file in the output.
  std::string InTag(const std::string& path) const {
    return output_.optimum ? JoinPath(nxd::kOptimumTag, path) : path;
  }

  // Plans all pipeline stages of one tensor and expert parallel rank.
  Status PlanRank(int t, int e) {
    NXDKIT_ASSIGN(const std::vector<nxd::RankTensor> tensors, NxdTensors(t, e));
    if (t == 0 && e == 0) {
      const int64_t ranks = int64_t{output_.geometry.tp} * output_.geometry.ep;
      uint64_t bytes = 0;
      for (const nxd::RankTensor& tensor : tensors) {
        // A file that the expert parallel ranks share.
        const bool shared = output_.xser && !tensor.expert;
        bytes += LeastPlanBytes(tensor.layout) *
                 static_cast<uint64_t>(shared ? output_.geometry.tp : ranks);
      }
      NXDKIT_TRY(builder_.CheckPlanBytes(bytes, ranks));
    }
    for (int p = 0; p < output_.geometry.pp; ++p) {
      std::vector<nxd::RankTensor> here;
      std::vector<TensorLayout> layouts;
      for (const nxd::RankTensor& tensor : tensors) {
        if (!nxd::OnPipelineRank(tensor, source_.model->config.layers, output_.geometry, p))
          continue;
        here.push_back(tensor);
        layouts.push_back(tensor.layout);
      }
      if (source_.optimizer) NXDKIT_TRY(PlanOptimizer(layouts, t, p));
      if (output_.optimum && t == 0)
        builder_.plan.texts.push_back(
            {InTag(nxd::MpMetadataName(p)),
             nxd::WriteMpMetadata(source_.model->config, output_.geometry, p, here)});
      NXDKIT_TRY(PlanShard(here, std::move(layouts), t, p, e));
    }
    return OkStatus();
  }

  // Scheduler and user content of the run that the tag continues.
  Status CarryTrainingFiles() {
    const Artifact& from = source_.artifact;
    NXDKIT_ASSIGN(const UserContent content, UserContentOf(source_));
    if (content.kept == UserContent::Kept::kAsIs)
      NXDKIT_TRY(builder_.CarryFile(from.folder, kUserContentFile, InTag(kUserContentFile)));
    if (content.kept == UserContent::Kept::kMade)
      NXDKIT_TRY(PlanObject(kUserContentFile, content.made));
    NXDKIT_ASSIGN(const auto scheduler, SchedulerOf(source_));
    NXDKIT_TRY(scheduler ? PlanObject(kSchedulerFile, *scheduler)
                         : builder_.CarryFile(from.folder, kSchedulerFile, InTag(kSchedulerFile)));
    const NxdState* const state = NxdStateOf(from);
    if (!state || !output_.optimum || !state->mp_record) return OkStatus();
    // Next to optimum-neuron's tag. Its training_args.bin has the old sizes and is not copied.
    for (const char* name : {kSchedulerFile, "trainer_state.json"})
      NXDKIT_TRY(builder_.CarryFile(state->set.location.root, name, name));
    return OkStatus();
  }

  Status PlanObject(const char* name, const torch::PickleValue& value) {
    NXDKIT_ASSIGN(std::string archive, torch::EncodeObject(value));
    builder_.plan.texts.push_back({InTag(name), std::move(archive)});
    return OkStatus();
  }

  // The settings of the trainer that wrote the source, if it was optimum-neuron's.
  Status PlanTrnConfig() {
    std::string settings;
    const NxdState* const state = NxdStateOf(source_.artifact);
    if (state && state->mp_record) {
      const std::string path = JoinPath(state->set.location.root, nxd::kTrnConfigFile);
      NXDKIT_ASSIGN(const bool there, IsFile(path));
      if (there) NXDKIT_TRY(ReadSmallFile(path, kMaxTrnConfigBytes).To(settings));
    }
    builder_.plan.texts.push_back(
        {nxd::kTrnConfigFile, nxd::WriteTrnConfig(output_.geometry, output_.xser, settings)});
    return OkStatus();
  }

  Status PlanOptimizer(const std::vector<TensorLayout>& params, int t, int p) {
    const int ranks = output_.optimizer_style == nxd::OptimizerStyle::kZero1 ? output_.dp : 1;
    for (int d = 0; d < ranks; ++d) {
      NXDKIT_ASSIGN(OptimizerTree tree, MakeOptimizerTree(source_, output_, params, d));
      NXDKIT_TRY(PlanArchive(std::move(tree.root), std::move(tree.tensors),
                             InTag(nxd::OptimizerFileName(output_.optimizer_style, d, t, p)),
                             {t, p, 0}));
    }
    return OkStatus();
  }

  Status PlanShard(const std::vector<nxd::RankTensor>& tensors, std::vector<TensorLayout> layouts,
                   int t, int p, int e) {
    torch::PickleDict dict;
    std::vector<XserPlace> places;
    for (size_t i = 0; i < tensors.size(); ++i) {
      torch::PickleValue tensor{torch::TensorIndex{i}};
      if (output_.xser) tensor = {torch::TensorReference{static_cast<int64_t>(i)}};
      dict.push_back({{layouts[i].name}, std::move(tensor)});
      const bool expert = tensors[i].expert && output_.geometry.ep > 1;
      places.push_back({expert, e == 0 || expert});
    }
    if (lora_config_) dict.push_back({{std::string(kLoraConfigKey)}, *lora_config_});
    const std::optional<int> ep = output_.geometry.ep > 1 ? std::optional<int>(e) : std::nullopt;
    return PlanArchive(torch::PickleValue::MakeDict(std::move(dict)), std::move(layouts),
                       InTag("model/" + nxd::ShardFileName(t, p, ep)), {t, p, e},
                       std::move(places));
  }

  // The ranks that a file belongs to.
  struct Ranks {
    int t = 0;
    int p = 0;
    int e = 0;
  };

  // With expert parallelism: tensors of no expert have one file, with ep rank 0.
  struct XserPlace {
    bool expert = false;
    bool here = true;
  };

  // With one ep rank, file names do not contain it.
  uint32_t NewFile(std::string path, const Ranks& ranks) {
    const uint32_t file = builder_.NewFile(std::move(path), ranks.t, ranks.p);
    if (output_.geometry.ep > 1) builder_.plan.layout.files[file].ep_rank = ranks.e;
    return file;
  }

  // One main file of a rank; `root` names tensor i by index, or in xser by reference.
  Status PlanArchive(torch::PickleValue root, std::vector<TensorLayout> tensors,
                     const std::string& path, const Ranks& ranks,
                     std::vector<XserPlace> places = {}) {
    places.resize(tensors.size());
    if (output_.xser) return PlanXser(std::move(root), std::move(tensors), path, ranks, places);
    const uint32_t file = NewFile(path, ranks);
    NXDKIT_ASSIGN(std::vector<OutputTensor> outputs, builder_.AddAll(std::move(tensors), file));
    return builder_.SetEncoder(file, torch::EncodeValue(root, std::move(outputs), Stem(path)));
  }

  // The main file holds references, .info.pt their targets, .tensors/ one file per tensor; a
  // tensor's id is its number in a walk of the main file's value.
  Status PlanXser(torch::PickleValue root, std::vector<TensorLayout> tensors,
                  const std::string& path, const Ranks& ranks,
                  const std::vector<XserPlace>& places) {
    torch::PickleDict info;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const int64_t tid = static_cast<int64_t>(i);
      NXDKIT_ASSIGN(const Dtype dtype, builder_.DtypeOf(tensors[i]));
      info.push_back({{tid},
                      torch::PickleValue::MakeDict(
                          {{{std::string("dtype")}, {dtype}},
                           {{std::string("shape")}, {torch::TorchSize{tensors[i].shape}}},
                           {{std::string("expert_model_parallel")}, {places[i].expert}}})});
      if (!places[i].here) continue;
      const uint32_t file = NewFile(fmt::format("{}.tensors/tensor_{}.pt", path, tid), ranks);
      NXDKIT_ASSIGN(OutputTensor output, builder_.Add(std::move(tensors[i]), file));
      NXDKIT_TRY(builder_.SetEncoder(
          file, torch::EncodeTensor(std::move(output), fmt::format("tensor_{}", tid))));
    }
    const uint32_t main = NewFile(path, ranks);
    NXDKIT_TRY(builder_.SetEncoder(main, torch::EncodeValue(root, {}, Stem(path))));
    const uint32_t info_file = NewFile(path + ".info.pt", ranks);
    return builder_.SetEncoder(info_file,
                               torch::EncodeValue(torch::PickleValue::MakeDict(std::move(info)), {},
                                                  Stem(path + ".info.pt")));
  }

  const BoundArtifact& source_;
  const NxdOutput& output_;
  OutputBuilder& builder_;
  std::optional<torch::PickleValue> lora_config_;
};

}  // namespace

Status NxdOutput::Plan(OutputBuilder& builder) const { return NxdPlanner(*this, builder).Run(); }

void NxdOutput::Tell(InputHints& hints) const {
  hints.Set("hw", std::string(models::HardwareName(geometry.hardware)));
}

// optimum-neuron's checkpoint is the folder around the tag.
Status NxdOutput::CheckName(const std::string& path) const {
  if (!optimum || BaseName(path) != nxd::kOptimumTag) return OkStatus();
  return BadUsage(
             "the output is the checkpoint's folder, in which {} is made: expected a name such as "
             "checkpoint-100",
             nxd::kOptimumTag)
      .in(path);
}

namespace {

// The main file of a rank: xser has a folder of that name for its tensors.
std::string MainFile(const std::string& path) {
  const size_t end = path.find(".pt");
  return end == std::string::npos ? path : path.substr(0, end);
}

// The elements of the largest rank: the first or last pipeline rank, because of the embedding. An
// optimizer's states are counted as they are kept in training.
uint64_t MostElements(const OutputPlan& output) {
  std::map<std::string, uint64_t> ranks;
  for (size_t t = 0; t < output.outputs.size(); ++t) {
    const std::string& path = output.layout.files[output.layout.tensors[t].file].path;
    if (nxd::IsOptimizerPath(path)) continue;
    ranks[MainFile(path)] +=
        static_cast<uint64_t>(ElementCount(output.outputs[t].shape).value_or(0));
  }
  uint64_t most = 0;
  for (const auto& [rank, elements] : ranks) most = std::max(most, elements);
  return most;
}

}  // namespace

Result<std::optional<hardware::Fit>> NxdOutput::FitOn(const BoundArtifact& source,
                                                      const FitQuestion& question) const {
  if (source.lora || !source.model) return std::optional<hardware::Fit>();
  const models::ModelConfig& model = source.model->config;
  hardware::TrainingUse use = question.training;
  use.tp = geometry.tp;
  use.pp = geometry.pp;
  use.rank_elements = MostElements(question.plan);
  use.hidden = model.hidden;
  use.layers = model.layers;
  use.vocab = model.vocab;
  return std::optional(hardware::FitTraining(question.instance, use));
}

}  // namespace nxdkit::kinds
