#include "formats/kinds/builder.h"

#include "formats/artifact/canonical.h"
#include "formats/hf/hf.h"
#include "formats/safetensors/encoder.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"
#include "lib/system/paths.h"

namespace nxdkit::kinds {

std::string Stem(const std::string& path) {
  const std::string name = BaseName(path);
  const size_t dot = name.rfind('.');
  return dot == std::string::npos || dot == 0 ? name : name.substr(0, dot);
}

uint64_t LeastPlanBytes(const TensorLayout& tensor) {
  constexpr uint64_t kShapeBytes = 32;  // a few numbers on the heap
  constexpr uint64_t kTensorBytes =
      sizeof(TensorLayout) + sizeof(OutputTensor) + sizeof(TensorPlan) + 2 * kShapeBytes;
  constexpr uint64_t kPieceBytes = sizeof(Piece) + sizeof(CopyOp) + 7 * kShapeBytes;
  return kTensorBytes + tensor.pieces.size() * kPieceBytes;
}

Result<Dtype> OutputBuilder::DtypeOf(const TensorLayout& tensor) const {
  if (tensor.dtype) return *tensor.dtype;
  NXDKIT_CHECK(!tensor.pieces.empty() || !tensor.fills.empty());
  // A slice that consists of padding has the dtype of the bundle.
  if (tensor.pieces.empty()) return output_.dtype.value_or(Dtype::kBF16);
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

Result<OutputTensor> OutputBuilder::Add(TensorLayout tensor, uint32_t file) {
  NXDKIT_ASSIGN(const Dtype dtype, DtypeOf(tensor));
  OutputTensor output{tensor.name, dtype, tensor.shape};
  tensor.file = file;
  plan.layout.tensors.push_back(std::move(tensor));
  plan.outputs.push_back(output);
  return output;
}

Result<std::vector<OutputTensor>> OutputBuilder::AddAll(std::vector<TensorLayout> tensors,
                                                        uint32_t file) {
  std::vector<OutputTensor> outputs;
  for (TensorLayout& tensor : tensors) {
    NXDKIT_ASSIGN(OutputTensor output, Add(std::move(tensor), file));
    outputs.push_back(std::move(output));
  }
  return outputs;
}

uint32_t OutputBuilder::NewFile(std::string path, int64_t tp_rank, int64_t pp_rank) {
  plan.layout.files.push_back({path, tp_rank, pp_rank});
  plan.files.push_back({std::move(path), nullptr});
  return static_cast<uint32_t>(plan.files.size() - 1);
}

Status OutputBuilder::SetEncoder(uint32_t file, Result<std::unique_ptr<FileEncoder>> encoder) {
  return std::move(encoder).in(plan.files[file].path).To(plan.files[file].encoder);
}

Status OutputBuilder::CarrySideFiles(const std::string& to) {
  const Artifact& from = source_.artifact;
  const auto named = [&](const std::string& name) {
    return to.empty() ? name : JoinPath(to, name);
  };
  if (!from.side_folder.empty()) {
    NXDKIT_ASSIGN(const std::vector<std::string> names, hf::SideFiles(from.side_folder, from.look));
    for (const std::string& name : names) {
      if (name == "config.json") continue;
      std::string path = JoinPath(from.side_folder, name);
      NXDKIT_ASSIGN(std::optional<std::string> settings, hf::ReadSettings(path));
      if (settings)
        plan.texts.push_back({named(name), *std::move(settings)});
      else
        plan.copies.push_back({named(name), std::move(path)});
    }
  }
  // NxDI's merged file serves as a config, but is not copied as one.
  if (BaseName(from.config_path) == "neuron_config.json") return OkStatus();
  const std::string& text = output_.config_text.empty() ? from.config_text : output_.config_text;
  if (!text.empty()) plan.texts.push_back({named("config.json"), text});
  return OkStatus();
}

Status OutputBuilder::CarryFile(const std::string& folder, const std::string& name,
                                std::string to) {
  if (folder.empty()) return OkStatus();  // a single file, or no folder
  NXDKIT_ASSIGN(const bool there, HasFile(folder, name));
  if (there) plan.copies.push_back({std::move(to), JoinPath(folder, name)});
  return OkStatus();
}

Status OutputBuilder::AddSafetensors(std::string path, int64_t rank,
                                     std::vector<TensorLayout> tensors,
                                     const std::map<std::string, std::string>& metadata) {
  const uint32_t file = NewFile(std::move(path), rank, -1);
  NXDKIT_ASSIGN(std::vector<OutputTensor> outputs, AddAll(std::move(tensors), file));
  return SetEncoder(file, safetensors::Encode(std::move(outputs), metadata));
}

Status OutputBuilder::CheckPlanBytes(uint64_t bytes, int64_t ranks, std::string_view hint) const {
  if (bytes <= max_memory_) return OkStatus();
  return OverLimit("the plan alone for {} takes {} bytes or more, the cap is {}",
                   Counted(ranks, "rank"), bytes, max_memory_)
      .hint(hint);
}

uint64_t OutputPlan::bytes() const {
  uint64_t bytes = 0;
  for (const OutputFile& file : files) bytes += file.encoder->file_bytes();
  return bytes;
}

Result<OutputPlan> PlanOutput(const BoundArtifact& source, const Output& output,
                              const std::string& output_name, uint64_t max_memory) {
  NXDKIT_ASSIGN(std::vector<Dtype> dtypes, ParamDtypes(source, output.dtype, output.downcast));
  for (size_t i = 0; i < output.own_dtypes.size(); ++i) dtypes[i] = output.own_dtypes[i];
  OutputBuilder builder(source, output, output_name, max_memory, std::move(dtypes));
  NXDKIT_TRY(output.Plan(builder));
  return std::move(builder.plan);
}

}  // namespace nxdkit::kinds
