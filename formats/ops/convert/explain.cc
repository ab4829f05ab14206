#include "formats/ops/convert/explain.h"

#include <fmt/core.h>

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
  Box logical = piece.logical;
  for (size_t d = 0; d < piece.axes.size(); ++d) {
    logical.lo[d] += op.box.lo[piece.axes[d]] - piece.stored_lo[piece.axes[d]];
    logical.extent[d] = op.box.extent[piece.axes[d]];
  }
  std::string text = param.name + BoxText(logical);
  if (param.head_rows > 0) {
    const int64_t first = logical.lo[param.head_dim] / param.head_rows;
    const int64_t last =
        (logical.lo[param.head_dim] + logical.extent[param.head_dim] - 1) / param.head_rows;
    text += first == last ? fmt::format(" (head {})", first)
                          : fmt::format(" (heads {} to {})", first, last);
  }
  return text;
}

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

Result<std::string> Explain(const ConvertRequest& request, const std::string& name) {
  NXDKIT_ASSIGN(const Conversion conversion, PlanConversion(request));
  const BoundArtifact& source = conversion.source;
  const OutputPlan& output = conversion.output;
  std::string text;
  std::vector<std::string> names;
  for (size_t t = 0; t < output.outputs.size(); ++t) {
    const TensorLayout& tensor = output.layout.tensors[t];
    names.push_back(tensor.name);
    if (tensor.name != name) continue;
    text += ExplainTensor(source, tensor, output.outputs[t], conversion.plan.tensors[t],
                          WhereText(output.layout.files[tensor.file], request.output));
  }
  if (!text.empty()) return text;
  const std::optional<std::string> closest = ClosestWord(name, names);
  return Error(Errc::kNotFound, "the output has no tensor of this name")
      .on(name)
      .hint(closest
                ? fmt::format("did you mean {}?", *closest)
                : std::string("names are those of the output's format; ckpt-inspect lists them of "
                              "an artifact that is there"));
}

}  // namespace nxdkit::ops
