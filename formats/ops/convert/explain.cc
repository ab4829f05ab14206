#include "formats/ops/convert/explain.h"

#include <fmt/core.h>

#include <map>
#include <unordered_map>
#include <utility>

#include "formats/ops/convert/conversion.h"
#include "lib/base/text.h"

namespace nxdkit::ops {
namespace {

// The box in the source that an op reads, for a row-major or strided source tensor.
std::string SourceText(const CopyOp& op, const BoundArtifact& source) {
  const StoredTensor& stored = source.bound.stored[op.source];
  const int64_t bytes = ElementBytes(stored.dtype);
  int64_t last = op.start;
  for (size_t d = 0; d < op.box.extent.size(); ++d) last += (op.box.extent[d] - 1) * op.strides[d];
  const uint64_t base = stored.storage->file_offset() + stored.offset;
  if (!stored.storage->is_file_range())
    return fmt::format("{} {} {} in {}", stored.name, Name(stored.dtype), ShapeText(stored.shape),
                       stored.storage->path());
  return fmt::format("{} {} {} in {}, file bytes [{}, {})", stored.name, Name(stored.dtype),
                     ShapeText(stored.shape), stored.storage->path(), base + op.start * bytes,
                     base + (last + 1) * bytes);
}

std::string LogicalText(const Piece& piece, const CopyOp& op, const LogicalTensor& param) {
  const Box logical = artifact::LogicalBoxOf(piece, op);
  std::string text = param.name + BoxText(logical);
  if (const auto heads = artifact::HeadsIn(param, logical))
    text += heads->first == heads->second
                ? fmt::format(" (head {})", heads->first)
                : fmt::format(" (heads {} to {})", heads->first, heads->second);
  return text;
}

// Collects the explanation, output tensor by output tensor.
class Explainer {
 public:
  Explainer(const Conversion& conversion, const ConvertRequest& request, const ExplainRequest& what)
      : source_(conversion.source),
        output_(conversion.output),
        plan_(conversion.plan),
        with_parts_(what.parts),
        with_text_(!what.name.empty()),
        part_bytes_(what.part_bytes),
        max_memory_(request.run.max_memory) {
    result_.sources = EndsOf(source_.bound.layout.files, request.input);
    result_.targets = EndsOf(output_.layout.files, request.output);
  }

  Status Add(size_t t) {
    const TensorLayout& tensor = output_.layout.tensors[t];
    const OutputTensor& output = output_.outputs[t];
    const auto [named, is_new] = named_.try_emplace(tensor.name);
    if (is_new) {
      named->second.number = result_.tensors.size();
      result_.tensors.emplace_back().name = tensor.name;
    }
    artifact::TensorSlices& slices = result_.tensors[named->second.number];
    slices.targets.push_back({tensor.name, tensor.file, output.dtype, tensor.shape});
    for (const CopyOp& op : plan_.tensors[t].copies) AddCopy(named->second, tensor, op);
    for (const Fill& fill : plan_.tensors[t].fills) AddFill(slices, tensor, fill);
    if (with_text_)
      result_.text += ExplainTensor(source_, tensor, output, plan_.tensors[t],
                                    result_.targets[tensor.file].name);
    return CheckMemory();
  }

  Explanation Take() {
    for (const auto& [ends, bytes] : flows_)
      result_.flows.push_back({ends.first, ends.second, bytes});
    return std::move(result_);
  }

 private:
  // The slices of a name while they are collected: the places of what is in them already.
  struct Named {
    size_t number = 0;                               // in Explanation::tensors
    std::unordered_map<uint32_t, uint32_t> sources;  // by the number of the stored tensor
    std::unordered_map<uint32_t, uint32_t> params;   // by the number of the parameter
  };

  static std::vector<PlanEnd> EndsOf(std::vector<LayoutFile> files, const std::string& fallback) {
    std::vector<PlanEnd> ends;
    for (LayoutFile& file : files) {
      ends.emplace_back().name = WhereText(file, fallback);
      if (file.path.empty()) file.path = fallback;
    }
    const std::vector<std::string> labels = artifact::FileLabels(files);
    for (size_t i = 0; i < ends.size(); ++i) ends[i].label = labels[i];
    return ends;
  }

  Status CheckMemory() const {
    const uint64_t bytes = parts_ * part_bytes_ + 2 * result_.text.size();
    if (bytes <= max_memory_) return OkStatus();
    return Error(Errc::kLimit,
                 fmt::format("{} of these tensors would take {}, and --max-memory is {}",
                             Counted(parts_, "part"), HumanBytes(bytes), HumanBytes(max_memory_)))
        .hint("name fewer tensors: --explain NAME");
  }

  void AddCopy(Named& named, const TensorLayout& tensor, const CopyOp& op) {
    artifact::TensorSlices& slices = result_.tensors[named.number];
    const auto to = static_cast<uint32_t>(slices.targets.size() - 1);
    const StoredTensor& stored = source_.bound.stored[op.source];
    const uint32_t file = source_.bound.layout.tensors[op.source].file;
    AddBytes(file, tensor.file, artifact::BoxBytes(slices.targets[to].dtype, op.box.extent));
    if (!with_parts_) return;
    const auto [from, new_source] =
        named.sources.try_emplace(op.source, static_cast<uint32_t>(slices.sources.size()));
    if (new_source) slices.sources.push_back({stored.name, file, stored.dtype, stored.shape});
    const Piece& piece = tensor.pieces[op.piece];
    const auto [param, new_param] =
        named.params.try_emplace(piece.param, static_cast<uint32_t>(slices.params.size()));
    if (new_param) slices.params.push_back(source_.params[piece.param]);
    slices.slices.push_back({from->second, to, artifact::SourceBoxOf(op, stored), op.box,
                             param->second, artifact::LogicalBoxOf(piece, op)});
    ++parts_;
  }

  void AddBytes(uint32_t from, uint32_t to, uint64_t bytes) {
    flows_[{from, to}] += bytes;
    result_.sources[from].bytes += bytes;
    result_.targets[to].bytes += bytes;
  }

  void AddFill(artifact::TensorSlices& slices, const TensorLayout& tensor, const Fill& fill) {
    const auto to = static_cast<uint32_t>(slices.targets.size() - 1);
    slices.fills.push_back({to, fill.stored, fill.value, !tensor.dtype});
    const uint64_t bytes = artifact::BoxBytes(slices.targets[to].dtype, fill.stored.extent);
    result_.fill_bytes += bytes;
    result_.targets[tensor.file].bytes += bytes;
  }

  const BoundArtifact& source_;
  const OutputPlan& output_;
  const Plan& plan_;
  const bool with_parts_;
  const bool with_text_;
  const uint64_t part_bytes_;
  const uint64_t max_memory_;
  uint64_t parts_ = 0;
  Explanation result_;
  std::unordered_map<std::string, Named> named_;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> flows_;
};

}  // namespace

std::string WhereText(const LayoutFile& file, const std::string& fallback) {
  std::string text = file.path.empty() ? fallback : file.path;
  if (file.tp_rank >= 0)
    text += fmt::format(" (tp rank {}", file.tp_rank) +
            (file.pp_rank >= 0 ? fmt::format(", pp rank {})", file.pp_rank) : ")");
  return text;
}

std::string ExplainTensor(const BoundArtifact& source, const TensorLayout& tensor,
                          const OutputTensor& output, const TensorPlan& plan,
                          std::string_view where) {
  std::string text = fmt::format("{} {} {}{}{}\n", tensor.name, Name(output.dtype),
                                 ShapeText(tensor.shape), where.empty() ? "" : " in ", where);
  for (const CopyOp& op : plan.copies)
    text += fmt::format(
        "  {} = {}\n      from {}\n", BoxText(op.box),
        LogicalText(tensor.pieces[op.piece], op, source.params[tensor.pieces[op.piece].param]),
        SourceText(op, source));
  for (const Fill& fill : plan.fills)
    text += fmt::format("  {} = {}\n", BoxText(fill.stored),
                        tensor.dtype ? fmt::format("{} (the rank)", fill.value) : "0 (padding)");
  return text;
}

Result<Explanation> Explain(const ConvertRequest& request, const ExplainRequest& what) {
  NXDKIT_ASSIGN(const Conversion conversion, PlanConversion(request));
  const std::vector<TensorLayout>& tensors = conversion.output.layout.tensors;
  Explainer explainer(conversion, request, what);
  const std::string& name = what.name;
  bool any = false;
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (!name.empty() && !GlobMatch(name, tensors[t].name)) continue;
    NXDKIT_TRY(explainer.Add(t));
    any = true;
  }
  if (any || name.empty()) return explainer.Take();
  std::vector<std::string> names;
  for (const TensorLayout& tensor : tensors) names.push_back(tensor.name);
  const std::optional<std::string> closest = ClosestWord(name, names);
  return Error(Errc::kNotFound, "the output has no tensor of this name")
      .on(name)
      .hint(closest
                ? fmt::format("did you mean {}?", *closest)
                : std::string("names are those of the output's format; ckpt-inspect lists them of "
                              "an artifact that is there"));
}

}  // namespace nxdkit::ops
