#include "formats/kinds/decide.h"

#include "formats/kinds/kind.h"
#include "lib/base/errors.h"

namespace nxdkit::kinds {

Result<std::unique_ptr<Output>> DecideOutput(const BoundArtifact& source, const Kind& kind,
                                             const OutputOptions& options) {
  if (!kind.decide)
    return Unsupported("{} can be read, but not written", kind.called).hint(kind.instead);
  if (source.lora && !kind.keeps_adapter)
    return Unsupported("a LoRA adapter alone has no {} form; it can be written as hf (PEFT) or nxd",
                       kind.name)
        .in(source.artifact.path)
        .hint("convert the base, and merge the adapter into it: --merge-lora");
  if (source.quantised && (options.dtype || options.downcast)) return *source.quantised;
  NXDKIT_ASSIGN(std::unique_ptr<Output> output, kind.decide(source, options));
  if (!source.lora) NXDKIT_TRY(DecideConfig(source, *output));
  return output;
}

Result<int> DecideTp(const BoundArtifact& source, const Kind& kind, const OutputOptions& options) {
  std::optional<int> tp = options.Number("tp");
  const Kind* const from = source.artifact.kind;
  if (!tp && from && from->tensor_parallel) tp = from->tensor_parallel(source);
  if (tp) return *tp;
  return BadUsage("--to {} needs --tp: the source does not say it", kind.name);
}

Status RequireModel(const BoundArtifact& source) {
  if (source.model) return OkStatus();
  if (source.quantised) return *source.quantised;
  if (source.artifact.config) {
    const Result<models::Model> model = MakeModel(*source.artifact.config);
    if (!model.ok()) return Error(model.error()).in(source.artifact.config_path);
    return Unsupported("the tensors are read as stored, including a LoRA adapter's")
        .in(source.artifact.path)
        .hint("--lora merged, or base");
  }
  return NotFound("no config.json: the tensors alone do not determine heads, layers and family")
      .in(source.artifact.path)
      .hint("name one with --config");
}

namespace {

// The dtype of a stored tensor, or its parameter's if that is given separately.
Dtype DtypeOf(const BoundArtifact& source, size_t tensor) {
  const std::vector<Piece>& pieces = source.bound.layout.tensors[tensor].pieces;
  const bool has_own = !pieces.empty() && pieces.front().param < source.own_dtypes.size();
  const std::optional<Dtype> own = has_own ? source.own_dtypes[pieces.front().param] : std::nullopt;
  return own.value_or(source.bound.stored[tensor].dtype);
}

}  // namespace

Result<Dtype> CommonDtype(const BoundArtifact& source, bool downcast) {
  const auto lowered = [&](Dtype dtype) { return downcast ? Downcast(dtype) : dtype; };
  std::optional<Dtype> common;
  const BoundArtifact& own = source.merged ? *source.base : source;
  for (size_t t = 0; t < own.bound.stored.size(); ++t) {
    const Dtype dtype = lowered(DtypeOf(own, t));
    if (!Info(dtype).floating) continue;
    if (common && *common != dtype) {
      if (source.artifact.config && source.artifact.config->dtype)
        return lowered(*source.artifact.config->dtype);
      return BadUsage("the source mixes {} and {}; a bundle has one dtype", Name(*common),
                      Name(dtype))
          .hint("name it with --dtype");
    }
    common = dtype;
  }
  return common.value_or(Dtype::kBF16);
}

Status DecideConfig(const BoundArtifact& source, Output& output) {
  const Artifact& artifact = source.artifact;
  if (!artifact.config || !artifact.config->dtype) return OkStatus();
  const Dtype before = *artifact.config->dtype;
  const Dtype after = output.dtype.value_or(output.downcast ? Downcast(before) : before);
  if (after == before) return OkStatus();
  return models::WithDtype(artifact.config_text, after).To(output.config_text);
}

}  // namespace nxdkit::kinds
