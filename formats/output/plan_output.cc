#include "formats/output/plan_output.h"

#include <fmt/core.h>

#include <map>

#include "formats/artifact/canonical.h"
#include "formats/artifact/compiled_model.h"
#include "formats/artifact/lora/lora_config.h"
#include "formats/artifact/optimizer/run_progress.h"
#include "formats/dcp/encoder.h"
#include "formats/dcp/metadata_writer.h"
#include "formats/hf/hf.h"
#include "formats/hf/split.h"
#include "formats/nxd/optimum.h"
#include "formats/output/plan_dcp.h"
#include "formats/output/plan_lora.h"
#include "formats/output/plan_optimizer.h"
#include "formats/rollout/cpu_plan.h"
#include "formats/safetensors/encoder.h"
#include "formats/torch/encoder.h"
#include "lib/base/errors.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {
namespace {

constexpr uint64_t kMaxTrnConfigBytes = 1 << 20;

// torch names the top folder of an archive after the file's stem, up to the last dot.
std::string Stem(const std::string& path) {
  const std::string name = BaseName(path);
  const size_t dot = name.rfind('.');
  return dot == std::string::npos || dot == 0 ? name : name.substr(0, dot);
}

// What a tensor takes in a plan at the least: its layout, its output, a copy for each piece.
uint64_t LeastPlanBytes(const TensorLayout& tensor) {
  constexpr uint64_t kShapeBytes = 32;  // a few numbers on the heap
  constexpr uint64_t kTensorBytes =
      sizeof(TensorLayout) + sizeof(OutputTensor) + sizeof(TensorPlan) + 2 * kShapeBytes;
  constexpr uint64_t kPieceBytes = sizeof(Piece) + sizeof(CopyOp) + 7 * kShapeBytes;
  return kTensorBytes + tensor.pieces.size() * kPieceBytes;
}

class Planner {
 public:
  Planner(const BoundArtifact& source, const OutputSpec& spec, std::string output_name,
          uint64_t max_memory)
      : source_(source),
        spec_(spec),
        output_name_(std::move(output_name)),
        max_memory_(max_memory) {}

  Result<OutputPlan> Run() {
    NXDKIT_ASSIGN(dtypes_, ParamDtypes(source_, spec_.dtype, spec_.downcast));
    for (size_t i = 0; i < spec_.own_dtypes.size(); ++i) dtypes_[i] = spec_.own_dtypes[i];
    switch (spec_.kind) {
      case Kind::kHf:
        NXDKIT_TRY(PlanHf());
        break;
      case Kind::kNxd:
        NXDKIT_TRY(PlanNxd());
        break;
      case Kind::kRollout:
        NXDKIT_TRY(PlanRollout());
        break;
      case Kind::kTorch:
        NXDKIT_TRY(PlanTorch());
        break;
      case Kind::kDcp:
        NXDKIT_TRY(PlanDcp());
        break;
      case Kind::kDelta:
        return Error(Errc::kInternal, "a delta has no layout");
    }
    return std::move(plan_);
  }

 private:
  Result<Dtype> DtypeOf(const TensorLayout& tensor) const {
    if (tensor.dtype) return *tensor.dtype;
    NXDKIT_CHECK(!tensor.pieces.empty() || !tensor.fills.empty());
    // A slice that is all padding has the dtype of the bundle.
    if (tensor.pieces.empty()) return spec_.dtype.value_or(Dtype::kBF16);
    const Dtype dtype = dtypes_[tensor.pieces.front().param];
    for (const Piece& piece : tensor.pieces)
      if (dtypes_[piece.param] != dtype)
        return Unsupported("{} is {} but {} is {}, and they are stored in one tensor",
                           source_.params[tensor.pieces.front().param].name, Name(dtype),
                           source_.params[piece.param].name, Name(dtypes_[piece.param]))
            .on(tensor.name)
            .hint("name one dtype with --dtype");
    return dtype;
  }

  // Adds a tensor to the layout; returns what the encoder needs.
  Result<OutputTensor> Add(TensorLayout tensor, uint32_t file) {
    NXDKIT_ASSIGN(const Dtype dtype, DtypeOf(tensor));
    OutputTensor output{tensor.name, dtype, tensor.shape};
    tensor.file = file;
    plan_.layout.tensors.push_back(std::move(tensor));
    plan_.outputs.push_back(output);
    return output;
  }

  Result<std::vector<OutputTensor>> AddAll(std::vector<TensorLayout> tensors, uint32_t file) {
    std::vector<OutputTensor> outputs;
    for (TensorLayout& tensor : tensors) {
      NXDKIT_ASSIGN(OutputTensor output, Add(std::move(tensor), file));
      outputs.push_back(std::move(output));
    }
    return outputs;
  }

  uint32_t NewFile(std::string path, int64_t tp_rank, int64_t pp_rank) {
    plan_.layout.files.push_back({path, tp_rank, pp_rank});
    plan_.files.push_back({std::move(path), nullptr});
    return static_cast<uint32_t>(plan_.files.size() - 1);
  }

  Status SetEncoder(uint32_t file, Result<std::unique_ptr<FileEncoder>> encoder) {
    NXDKIT_ASSIGN(plan_.files[file].encoder, std::move(encoder).in(plan_.files[file].path));
    return OkStatus();
  }

  Status CarrySideFiles() {
    const Artifact& from = source_.artifact;
    if (!from.side_folder.empty()) {
      NXDKIT_ASSIGN(const std::vector<std::string> names, hf::SideFiles(from.side_folder));
      for (const std::string& name : names)
        if (name != "config.json") plan_.copies.push_back({name, JoinPath(from.side_folder, name)});
    }
    // NxDI's merged file stands for a config, but is none to carry on.
    if (BaseName(from.config_path) == "neuron_config.json") return OkStatus();
    if (!spec_.config_text.empty())
      plan_.texts.push_back({"config.json", spec_.config_text});
    else if (!from.config_path.empty())
      plan_.copies.push_back({"config.json", from.config_path});
    else if (!from.config_text.empty())
      plan_.texts.push_back({"config.json", from.config_text});
    return OkStatus();
  }

  Status PlanSafetensors(std::string path, int64_t rank, std::vector<TensorLayout> tensors,
                         const std::map<std::string, std::string>& metadata) {
    const uint32_t file = NewFile(std::move(path), rank, -1);
    NXDKIT_ASSIGN(std::vector<OutputTensor> outputs, AddAll(std::move(tensors), file));
    return SetEncoder(file, safetensors::Encode(std::move(outputs), metadata));
  }

  Status PlanHf() {
    if (source_.lora) {
      plan_.texts.push_back({kLoraConfigFile, PeftConfig(source_)});
      return PlanSafetensors(kPeftFile, -1, PeftTensors(source_), {{"format", "pt"}});
    }
    std::vector<TensorLayout> tensors = WholeTensors(source_);
    std::vector<uint64_t> bytes;
    uint64_t total = 0;
    uint64_t parameters = 0;
    for (const TensorLayout& tensor : tensors) {
      NXDKIT_ASSIGN(const Dtype dtype, DtypeOf(tensor));
      NXDKIT_ASSIGN(const uint64_t size, PackedBytes(dtype, tensor.shape));
      bytes.push_back(size);
      total += size;
      parameters += static_cast<uint64_t>(*ElementCount(tensor.shape));
    }
    const std::vector<std::vector<size_t>> shards = hf::SplitShards(bytes, spec_.max_shard_bytes);
    std::vector<std::pair<std::string, std::string>> weight_map;
    for (size_t s = 0; s < shards.size(); ++s) {
      const std::string name = hf::ShardName(s, shards.size());
      std::vector<TensorLayout> here;
      for (size_t t : shards[s]) {
        weight_map.push_back({tensors[t].name, name});
        here.push_back(std::move(tensors[t]));
      }
      NXDKIT_TRY(PlanSafetensors(name, -1, std::move(here), {{"format", "pt"}}));
    }
    if (shards.size() > 1)
      plan_.texts.push_back(
          {"model.safetensors.index.json", hf::IndexJson(weight_map, total, parameters)});
    return CarrySideFiles();
  }

  Status PlanTorch() {
    plan_.single_file = true;
    const uint32_t file = NewFile("", -1, -1);
    NXDKIT_ASSIGN(std::vector<OutputTensor> outputs, AddAll(WholeTensors(source_), file));
    return SetEncoder(file, torch::EncodeStateDict(std::move(outputs), Stem(output_name_)));
  }

  Result<std::vector<nxd::RankTensor>> NxdTensors(int t, int e) const {
    if (!source_.lora) return nxd::RankTensors(*source_.model, spec_.nxd, t, spec_.aliases, e);
    return nxd::LoraRankTensors(*source_.model, spec_.nxd, source_.lora->pairs,
                                spec_.dtype.value_or(Dtype::kF32), t);
  }

  // Where a file of the tag lies in the output.
  std::string InTag(const std::string& path) const {
    return spec_.optimum ? JoinPath(nxd::kOptimumTag, path) : path;
  }

  Status PlanNxd() {
    plan_.texts.push_back({InTag("checkpoint"), "1"});
    if (source_.lora) {
      NXDKIT_ASSIGN(const std::string config, NxdLoraConfig(source_, spec_.nxd));
      lora_config_ = PickleOfJson(config);
    }
    for (int t = 0; t < spec_.nxd.tp; ++t)
      for (int e = 0; e < spec_.nxd.ep; ++e) NXDKIT_TRY(PlanRank(t, e));
    if (spec_.training_tag) NXDKIT_TRY(CarryTrainingFiles());
    if (spec_.optimum) NXDKIT_TRY(PlanTrnConfig());
    NXDKIT_TRY(CarrySideFiles());
    const std::string dtype(dtypes_.empty() ? "" : TorchName(dtypes_.front()));
    plan_.texts.push_back({InTag("nxdkit.json"),
                           nxd::WriteSidecar(spec_.nxd, source_.model->config.family->model_type,
                                             dtype, NXDKIT_VERSION, spec_.source_digest)});
    plan_.texts.push_back({InTag("done"), "1"});
    return OkStatus();
  }

  // `bytes` are what the plan of all ranks takes at the least: more of them than memory can hold
  // are refused before they are planned.
  Status CheckPlanBytes(
      uint64_t bytes, int64_t ranks,
      std::string_view hint = "ask for fewer ranks, or raise --max-memory") const {
    if (bytes <= max_memory_) return OkStatus();
    return OverLimit("the plan alone for {} ranks takes {} bytes or more, the cap is {}", ranks,
                     bytes, max_memory_)
        .hint(hint);
  }

  // All pipeline stages of one tensor and expert parallel rank.
  Status PlanRank(int t, int e) {
    NXDKIT_ASSIGN(const std::vector<nxd::RankTensor> tensors, NxdTensors(t, e));
    if (t == 0 && e == 0) {
      const int64_t ranks = int64_t{spec_.nxd.tp} * spec_.nxd.ep;
      uint64_t bytes = 0;
      for (const nxd::RankTensor& tensor : tensors) {
        // A file of its own, which the expert parallel ranks share.
        const bool shared = spec_.xser && !tensor.expert;
        bytes +=
            LeastPlanBytes(tensor.layout) * static_cast<uint64_t>(shared ? spec_.nxd.tp : ranks);
      }
      NXDKIT_TRY(CheckPlanBytes(bytes, ranks));
    }
    for (int p = 0; p < spec_.nxd.pp; ++p) {
      std::vector<nxd::RankTensor> here;
      std::vector<TensorLayout> layouts;
      for (const nxd::RankTensor& tensor : tensors) {
        if (!nxd::OnPipelineRank(tensor, source_.model->config.layers, spec_.nxd, p)) continue;
        here.push_back(tensor);
        layouts.push_back(tensor.layout);
      }
      if (source_.optimizer) NXDKIT_TRY(PlanOptimizer(layouts, t, p));
      if (spec_.optimum && t == 0)
        plan_.texts.push_back({InTag(nxd::MpMetadataName(p)),
                               nxd::WriteMpMetadata(source_.model->config, spec_.nxd, p, here)});
      NXDKIT_TRY(PlanShard(here, std::move(layouts), t, p, e));
    }
    return OkStatus();
  }

  // Every rank of the mesh has a file, the first one the objects too. The metadata comes last: a
  // folder without it is none.
  Status PlanDcp() {
    NXDKIT_ASSIGN(const uint64_t least, LeastDcpBytes(source_, spec_));
    const bool by_expert =
        source_.model && source_.model->config.experts > 0 && spec_.dcp_style == dcp::Style::kHf;
    NXDKIT_TRY(CheckPlanBytes(
        least, spec_.mesh.ranks(),
        by_expert ? "--style hf-fused (transformers 5) and torchtitan have the experts of a layer "
                    "in one tensor; or raise --max-memory"
                  : "raise --max-memory"));
    NXDKIT_ASSIGN(const dcp::Metadata metadata, PlanDcpFiles());
    if (source_.optimizer) NXDKIT_TRY(CarryTrainingFiles());
    NXDKIT_TRY(CarrySideFiles());
    NXDKIT_ASSIGN(std::string text, dcp::WriteMetadata(metadata));
    plan_.texts.push_back({dcp::kMetadataFile, std::move(text)});
    return OkStatus();
  }

  // What is in the files, and where.
  Result<dcp::Metadata> PlanDcpFiles() {
    NXDKIT_ASSIGN(DcpContents contents, MakeDcpContents(source_, spec_));
    NXDKIT_TRY(CheckDcpBytes(contents));
    std::vector<DcpRank> ranks = CutDcp(contents, spec_.mesh);
    for (size_t r = 0; r < ranks.size(); ++r) {
      std::vector<dcp::ObjectArchive> objects;
      if (r == 0)
        for (DcpObject& object : contents.objects) objects.push_back(std::move(object.archive));
      if (ranks[r].chunks.empty() && objects.empty()) continue;
      NXDKIT_TRY(PlanDcpFile(static_cast<int>(r), ranks[r], std::move(objects), contents));
    }
    return std::move(contents.metadata);
  }

  Status CheckDcpBytes(const DcpContents& contents) const {
    uint64_t bytes = 0;
    for (const dcp::GlobalTensor& tensor : contents.tensors)
      bytes += LeastPlanBytes(tensor.layout) * static_cast<uint64_t>(spec_.mesh.ranks());
    return CheckPlanBytes(bytes, spec_.mesh.ranks());
  }

  Status PlanDcpFile(int rank, DcpRank& cut, std::vector<dcp::ObjectArchive> objects,
                     DcpContents& contents) {
    const std::string name = dcp::DataFileName(rank);
    const uint32_t file = NewFile(name, -1, -1);
    std::vector<OutputTensor> outputs;
    for (DcpChunk& chunk : cut.chunks) {
      NXDKIT_ASSIGN(OutputTensor output, Add(std::move(chunk.layout), file));
      contents.metadata.tensors[chunk.entry].dtype = output.dtype;
      output.shape = chunk.box.extent;  // the layout may see it in another one
      outputs.push_back(std::move(output));
    }
    NXDKIT_ASSIGN(dcp::EncodedFile encoded,
                  dcp::EncodeItems(std::move(objects), std::move(outputs)).in(name));
    for (size_t i = 0; i < encoded.objects.size(); ++i)
      contents.metadata.objects[i].place = {name, encoded.objects[i].offset,
                                            encoded.objects[i].bytes};
    for (size_t i = 0; i < encoded.tensors.size(); ++i)
      contents.metadata.tensors[cut.chunks[i].entry].chunks.push_back(
          {std::move(cut.chunks[i].box),
           {name, encoded.tensors[i].offset, encoded.tensors[i].bytes}});
    plan_.files[file].encoder = std::move(encoded.encoder);
    return OkStatus();
  }

  // Opaque to us: whatever they hold does not depend on the layout.
  Status CarryTrainingFiles() {
    const auto carry = [&](const std::string& folder, const char* name, std::string to) -> Status {
      NXDKIT_ASSIGN(const bool there, HasFile(folder, name));
      if (there) plan_.copies.push_back({std::move(to), JoinPath(folder, name)});
      return OkStatus();
    };
    const Artifact& from = source_.artifact;
    const std::string& folder = from.set ? from.set->location.tag_folder : from.path;
    NXDKIT_ASSIGN(const UserContent content, ContentOf());
    if (content.kept == UserContent::Kept::kAsIs)
      NXDKIT_TRY(carry(folder, kUserContentFile, InTag(kUserContentFile)));
    if (content.kept == UserContent::Kept::kMade)
      NXDKIT_TRY(PlanObject(kUserContentFile, content.made));
    NXDKIT_ASSIGN(const bool made, MakeScheduler());
    if (!made) NXDKIT_TRY(carry(folder, kSchedulerFile, InTag(kSchedulerFile)));
    if (!from.set || !spec_.optimum || !from.mp_record) return OkStatus();
    // Beside optimum-neuron's tag. Its training_args.bin names the old sizes and stays behind.
    for (const char* name : {kSchedulerFile, "trainer_state.json"})
      NXDKIT_TRY(carry(from.set->location.root, name, name));
    return OkStatus();
  }

  Result<UserContent> ContentOf() const {
    return spec_.kind == Kind::kNxd ? UserContentOf(source_) : Result<UserContent>(UserContent());
  }

  Status PlanObject(const char* name, const torch::PickleValue& value) {
    NXDKIT_ASSIGN(std::string archive, dcp::EncodeObject(value));
    plan_.texts.push_back({InTag(name), std::move(archive)});
    return OkStatus();
  }

  // Of a tag that a checkpoint becomes; false where there is nothing to make it of.
  Result<bool> MakeScheduler() {
    if (spec_.kind != Kind::kNxd) return false;
    NXDKIT_ASSIGN(const auto scheduler, SchedulerOf(source_));
    if (!scheduler) return false;
    NXDKIT_TRY(PlanObject(kSchedulerFile, *scheduler));
    return true;
  }

  // The settings of the trainer that left the source, if it was optimum-neuron's.
  Status PlanTrnConfig() {
    std::string settings;
    if (source_.artifact.mp_record) {
      const std::string path = JoinPath(source_.artifact.set->location.root, nxd::kTrnConfigFile);
      NXDKIT_ASSIGN(const bool there, IsFile(path));
      if (there) {
        NXDKIT_ASSIGN(settings, ReadSmallFile(path, kMaxTrnConfigBytes));
      }
    }
    plan_.texts.push_back(
        {nxd::kTrnConfigFile, nxd::WriteTrnConfig(spec_.nxd, spec_.xser, settings)});
    return OkStatus();
  }

  Status PlanOptimizer(const std::vector<TensorLayout>& params, int t, int p) {
    const int ranks = spec_.optimizer_style == nxd::OptimizerStyle::kZero1 ? spec_.dp : 1;
    for (int d = 0; d < ranks; ++d) {
      NXDKIT_ASSIGN(OptimizerTree tree, MakeOptimizerTree(source_, spec_, params, d));
      NXDKIT_TRY(PlanArchive(std::move(tree.root), std::move(tree.tensors),
                             InTag(nxd::OptimizerFileName(spec_.optimizer_style, d, t, p)), t, p));
    }
    return OkStatus();
  }

  Status PlanShard(const std::vector<nxd::RankTensor>& tensors, std::vector<TensorLayout> layouts,
                   int t, int p, int e) {
    torch::PickleDict dict;
    std::vector<XserPlace> places;
    for (size_t i = 0; i < tensors.size(); ++i) {
      torch::PickleValue tensor{torch::TensorIndex{i}};
      if (spec_.xser) tensor = {torch::TensorReference{static_cast<int64_t>(i)}};
      dict.push_back({{layouts[i].name}, std::move(tensor)});
      const bool expert = tensors[i].expert && spec_.nxd.ep > 1;
      places.push_back({expert, e == 0 || expert});
    }
    if (lora_config_) dict.push_back({{std::string(kLoraConfigKey)}, *lora_config_});
    const std::optional<int> ep = spec_.nxd.ep > 1 ? std::optional<int>(e) : std::nullopt;
    return PlanArchive(torch::PickleValue::MakeDict(std::move(dict)), std::move(layouts),
                       InTag("model/" + nxd::ShardFileName(t, p, ep)), t, p, std::move(places));
  }

  // With expert parallelism: tensors that are no experts' have one file, with ep rank 0.
  struct XserPlace {
    bool expert = false;
    bool here = true;
  };

  // One main file of a rank; `root` names tensor i by index, or in xser by reference.
  Status PlanArchive(torch::PickleValue root, std::vector<TensorLayout> tensors,
                     const std::string& path, int t, int p, std::vector<XserPlace> places = {}) {
    places.resize(tensors.size());
    if (spec_.xser) return PlanXser(std::move(root), std::move(tensors), path, t, p, places);
    const uint32_t file = NewFile(path, t, p);
    NXDKIT_ASSIGN(std::vector<OutputTensor> outputs, AddAll(std::move(tensors), file));
    return SetEncoder(file, torch::EncodeValue(root, std::move(outputs), Stem(path)));
  }

  // The main file holds references, .info.pt what they stand for, .tensors/ one file per tensor; a
  // tensor's id is its number in a walk of the main file's value.
  Status PlanXser(torch::PickleValue root, std::vector<TensorLayout> tensors,
                  const std::string& path, int t, int p, const std::vector<XserPlace>& places) {
    torch::PickleDict info;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const int64_t tid = static_cast<int64_t>(i);
      NXDKIT_ASSIGN(const Dtype dtype, DtypeOf(tensors[i]));
      info.push_back({{tid},
                      torch::PickleValue::MakeDict(
                          {{{std::string("dtype")}, {dtype}},
                           {{std::string("shape")}, {torch::TorchSize{tensors[i].shape}}},
                           {{std::string("expert_model_parallel")}, {places[i].expert}}})});
      if (!places[i].here) continue;
      const uint32_t file = NewFile(fmt::format("{}.tensors/tensor_{}.pt", path, tid), t, p);
      NXDKIT_ASSIGN(OutputTensor output, Add(std::move(tensors[i]), file));
      NXDKIT_TRY(
          SetEncoder(file, torch::EncodeTensor(std::move(output), fmt::format("tensor_{}", tid))));
    }
    const uint32_t main = NewFile(path, t, p);
    NXDKIT_TRY(SetEncoder(main, torch::EncodeValue(root, {}, Stem(path))));
    const uint32_t info_file = NewFile(path + ".info.pt", t, p);
    return SetEncoder(info_file, torch::EncodeValue(torch::PickleValue::MakeDict(std::move(info)),
                                                    {}, Stem(path + ".info.pt")));
  }

  Status PlanRollout() {
    const std::string folder = rollout::WeightsFolder(spec_.neuron.flavor);
    for (int rank = 0; rank < spec_.neuron.tp; ++rank) {
      const std::string name = rollout::ShardFileName(rank);
      NXDKIT_ASSIGN(std::vector<TensorLayout> tensors,
                    rollout::RankTensors(*source_.model, spec_.neuron, rank));
      if (rank == 0) {
        uint64_t bytes = 0;
        for (const TensorLayout& tensor : tensors) bytes += LeastPlanBytes(tensor);
        bytes *= static_cast<uint64_t>(spec_.neuron.tp);
        NXDKIT_TRY(CheckPlanBytes(bytes, spec_.neuron.tp));
      }
      NXDKIT_TRY(PlanSafetensors(spec_.only_weights ? name : JoinPath(folder, name), rank,
                                 std::move(tensors), {}));
    }
    if (spec_.only_weights) return CheckAgainstBundle();
    plan_.first_slot = folder;
    plan_.texts.push_back({"neuron_config.json", spec_.neuron_text});
    if (!spec_.cpu_plan_text.empty())
      plan_.texts.push_back({std::string(rollout::kCpuPlanFile), spec_.cpu_plan_text});
    NXDKIT_TRY(CarrySideFiles());
    if (!spec_.bundle) return OkStatus();
    for (const std::string& blob : spec_.bundle->blobs)
      plan_.copies.push_back({blob, JoinPath(spec_.bundle->folder, blob)});
    return CheckAgainstBundle();
  }

  // The bundle's own shards, when it has some, and its model's settings show what its blob
  // expects.
  Status CheckAgainstBundle() const {
    const rollout::Bundle& bundle = *spec_.bundle;
    for (size_t i = 0; i < bundle.shards.size(); ++i) {
      const int64_t rank = bundle.first_rank + static_cast<int64_t>(i);
      std::vector<OutputTensor> model;
      for (size_t t = 0; t < plan_.outputs.size(); ++t)
        if (plan_.layout.files[plan_.layout.tensors[t].file].tp_rank == rank)
          model.push_back(plan_.outputs[t]);
      NXDKIT_TRY(Refuse(CompareShard(bundle.shards[i], rank, model)));
    }
    NXDKIT_ASSIGN(const ConfigText compiled, CompiledModel(bundle));
    NXDKIT_ASSIGN(const std::vector<Finding> findings,
                  CompareModels({source_.artifact.config_text, source_.artifact.config_path},
                                compiled, spec_.neuron.tp));
    return Refuse(findings);
  }

  static Status Refuse(const std::vector<Finding>& findings) {
    if (findings.empty()) return OkStatus();
    const Finding& first = findings.front();
    return Error(Errc::kUnsupported, first.message)
        .in(first.file)
        .on(first.tensor)
        .hint("the compiled blob does not fit this model; compile one for it");
  }

  const BoundArtifact& source_;
  const OutputSpec& spec_;
  std::string output_name_;
  uint64_t max_memory_;
  std::vector<Dtype> dtypes_;  // of the output, per parameter
  std::optional<torch::PickleValue> lora_config_;
  OutputPlan plan_;
};

}  // namespace

uint64_t OutputPlan::bytes() const {
  uint64_t bytes = 0;
  for (const OutputFile& file : files) bytes += file.encoder->file_bytes();
  return bytes;
}

Result<OutputPlan> PlanOutput(const BoundArtifact& source, const OutputSpec& spec,
                              const std::string& output_name, uint64_t max_memory) {
  return Planner(source, spec, output_name, max_memory).Run();
}

}  // namespace nxdkit::ops
