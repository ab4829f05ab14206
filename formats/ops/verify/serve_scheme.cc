#include "formats/ops/verify/serve_scheme.h"

#include <fmt/core.h>

#include "formats/ops/verify/serve_names.h"
#include "lib/json/json.h"

namespace nxdkit::ops {
namespace {

// Static FP8 of one scale a tensor, in ModelOpt's form; the one scheme of weights that the engine
// has for the families that are known here, and there for llama alone.
constexpr std::string_view kModelOpt = "modelopt";
constexpr std::string_view kModelOptFamily = "llama";

struct Scheme {
  std::string name;     // "modelopt FP8"; "": weights are not quantised
  std::string refusal;  // "": the engine takes it
};

std::string TextOf(const Json& of, const char* key) {
  const Json* value = JsonFind(of, key);
  return value && value->is_string() ? value->get<std::string>() : "";
}

// A configuration of compressed-tensors that says nothing of weights is about the KV cache alone.
bool QuantisesWeights(const Json& scheme) {
  const Json* groups = JsonFind(scheme, "config_groups");
  if (!groups || !groups->is_object()) return !JsonFind(scheme, "kv_cache_scheme");
  for (const auto& [name, group] : groups->items())
    if (JsonFind(group, "weights")) return true;
  return false;
}

Scheme SchemeOf(const Json& config, std::string_view family) {
  const Json* said = JsonFind(config, "quantization_config");
  if (!said || !said->is_object()) return {};
  const std::string method = TextOf(*said, "quant_method");
  const std::string algorithm = TextOf(*said, "quant_algo");
  if (method == kModelOpt && algorithm == "FP8") {
    if (family == kModelOptFamily) return {"modelopt FP8", ""};
    return {"modelopt FP8", fmt::format("the engine takes it of {} models alone", kModelOptFamily)};
  }
  if (method == "compressed-tensors") {
    if (!QuantisesWeights(*said)) return {};
    return {method, "the engine refuses schemes for weights of compressed-tensors at start"};
  }
  return {fmt::format("{}{}{}", method.empty() ? "unnamed" : method, algorithm.empty() ? "" : " ",
                      algorithm),
          "it is none of the schemes that the engine takes of this family"};
}

class SchemeCheck {
 public:
  SchemeCheck(const ServedFolder& folder, const models::Model& model, ServeReport& report)
      : folder_(folder), model_(model), report_(report) {}

  Status Run() {
    NXDKIT_ASSIGN(const Json config,
                  ParseJson(folder_.artifact.config_text).in(folder_.artifact.config_path));
    const Scheme scheme = SchemeOf(config, model_.config.family->model_type);
    if (!scheme.refusal.empty()) {
      Add(Finding("quantisation", fmt::format("{}: {}", scheme.name, scheme.refusal))
              .in(folder_.artifact.config_path));
      return OkStatus();
    }
    for (const models::Param& param : model_.params)
      if (const StoredTensor* tensor = folder_.Find(param.name)) Look(*tensor, scheme);
    for (const auto& [name, tensor] : folder_.tensors)
      if (IsWeightScale(name)) LookAtScale(*tensor, scheme);
    return OkStatus();
  }

 private:
  void Look(const StoredTensor& tensor, const Scheme& scheme) {
    if (Info(tensor.dtype).floating) return;
    if (tensor.dtype != Dtype::kF8E4M3 || scheme.name.empty())
      return Add(On(tensor, "dtype",
                    fmt::format("{} {}", Name(tensor.dtype),
                                scheme.name.empty()
                                    ? "and no quantization_config in config.json: the numbers are "
                                      "loaded without their scales"
                                    : "is not the scheme's FP8")));
    const std::string module = tensor.name.substr(0, tensor.name.rfind('.'));
    for (const char* scale : {".weight_scale", ".input_scale"})
      if (!folder_.Find(module + scale))
        Add(Finding("missing", fmt::format("an FP8 weight without {}", scale + 1))
                .in(tensor.storage->path())
                .on(module + scale));
  }

  // FP8 weights tell enough of a scale without a scheme.
  void LookAtScale(const StoredTensor& tensor, const Scheme& scheme) {
    const StoredTensor* weight =
        folder_.Find(tensor.name.substr(0, tensor.name.rfind('.')) + ".weight");
    if (weight && weight->dtype == Dtype::kF8E4M3 && !tensor.name.ends_with("_inv")) return;
    Add(On(tensor, "ignored",
           scheme.name.empty() ? "the scale of no FP8 weight: it is passed over"
                               : "the scale of no weight of the scheme: it is passed over"));
  }

  static Finding On(const StoredTensor& tensor, const char* check, std::string message) {
    return Finding(check, std::move(message)).in(tensor.storage->path()).on(tensor.name);
  }
  void Add(Finding finding) { report_.findings.push_back(std::move(finding)); }

  const ServedFolder& folder_;
  const models::Model& model_;
  ServeReport& report_;
};

}  // namespace

Status CheckServedScheme(const ServedFolder& folder, const models::Model& model,
                         ServeReport& report) {
  return SchemeCheck(folder, model, report).Run();
}

}  // namespace nxdkit::ops
