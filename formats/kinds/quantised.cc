#include "formats/kinds/quantised.h"

#include <fmt/core.h>

#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::kinds {
namespace {

struct Row {
  std::string_view end;  // of the tensor's name
  std::string_view method;
};
constexpr Row kRows[] = {
    {".weight_scale_inv", "fp8"},
    {".activation_scale", "fp8"},
    {".SCB", "bitsandbytes (8 bits)"},
    {".weight_format", "bitsandbytes (8 bits)"},
    {".absmax", "bitsandbytes (4 bits)"},
    {".quant_map", "bitsandbytes (4 bits)"},
    {".nested_absmax", "bitsandbytes (4 bits)"},
    {".quant_state.bitsandbytes__nf4", "bitsandbytes (4 bits)"},
    {".quant_state.bitsandbytes__fp4", "bitsandbytes (4 bits)"},
    {".qweight", "gptq or awq"},
    {".qzeros", "gptq or awq"},
    {".g_idx", "gptq"},
    {".weight_packed", "compressed-tensors"},
    {".weight_shape", "compressed-tensors"},
    {".weight_zero_point", "compressed-tensors"},
    {".weight_scale", "compressed-tensors or modelopt"},
    {".weight_scale_2", "modelopt"},
    {".input_scale", "compressed-tensors or modelopt"},
    {".k_scale", "compressed-tensors or modelopt"},
    {".v_scale", "compressed-tensors or modelopt"},
    {"_blocks", "mxfp4"},
    {"_scales", "mxfp4"},
};

// The method that stores a tensor of this name next to a weight: "fp8" for "weight_scale_inv"; ""
// if there is none.
std::string_view QuantisedBy(std::string_view name) {
  for (const Row& row : kRows)
    if (name.ends_with(row.end)) return row.method;
  return "";
}

bool IsPlain(Dtype dtype) {
  return dtype == Dtype::kBF16 || dtype == Dtype::kF16 || dtype == Dtype::kF32 ||
         dtype == Dtype::kF64;
}

Error Quantised(std::string_view method) {
  return Unsupported("the weights are quantised ({}); only weights of 16 or 32 bits can be read",
                     EscapeControl(method))
      .hint(
          "use the model before quantisation; or, if the method allows it, "
          "from_pretrained(MODEL).dequantize().save_pretrained(OUTPUT) of transformers");
}

}  // namespace

Status CheckQuantised(BoundArtifact& bound) {
  Artifact& artifact = bound.artifact;
  const std::string said = artifact.config ? artifact.config->quant_method : "";
  for (const StoredTensor& stored : bound.bound.stored) {
    const std::string_view told = bound.model ? "" : QuantisedBy(stored.name);
    if (told.empty() && (said.empty() || IsPlain(stored.dtype))) continue;
    const Error error =
        Quantised(said.empty() ? told : said).in(stored.storage->path()).on(stored.name);
    if (bound.model) return error;
    // Each tensor is a parameter of its own, and can be copied as it is.
    bound.quantised = error;
    artifact.warnings.push_back(error.ToString() + "; every tensor counts as it is stored");
    return OkStatus();
  }
  if (said.empty() || !bound.model) return OkStatus();
  NXDKIT_ASSIGN(artifact.config_text, models::WithoutQuantization(artifact.config_text));
  artifact.warnings.push_back(fmt::format(
      "{}: quant_method is {}, but no weight is quantised; it is left out of the output",
      artifact.config_path, EscapeControl(said)));
  return OkStatus();
}

Status CheckNotQuantised(const Artifact& artifact, std::string_view tensor,
                         const std::string& file) {
  std::string_view method = QuantisedBy(tensor);
  if (artifact.config && !artifact.config->quant_method.empty())
    method = artifact.config->quant_method;
  return method.empty() ? OkStatus() : Status(Quantised(method).in(file).on(tensor));
}

}  // namespace nxdkit::kinds
