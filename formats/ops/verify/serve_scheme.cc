#include "formats/ops/verify/serve_scheme.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {
namespace {

// Static FP8 with one scale per tensor, in ModelOpt's form; the only weight scheme that the engine
// has for the families that are known here, and only for llama.
constexpr std::string_view kModelOpt = "modelopt";
constexpr std::string_view kModelOptFamily = "llama";
constexpr std::string_view kFp8 = "fp8";
// Older versions of ModelOpt write their configuration next to config.json.
constexpr char kModelOptFile[] = "hf_quant_config.json";
constexpr std::string_view kProjection = "_proj.weight";

std::string TextOf(const Json& of, const char* key) {
  const Json* value = JsonFind(of, key);
  return value && value->is_string() ? value->get<std::string>() : "";
}

// The engine compares words of the configuration case-insensitively.
std::string Lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

bool IsSet(const Json& of, const char* key) {
  const Json* value = JsonFind(of, key);
  return value && !(value->is_object() && value->empty());
}

// A configuration of compressed-tensors that does not mention weights is only about the KV cache.
bool QuantisesWeights(const Json& scheme) {
  const Json* groups = JsonFind(scheme, "config_groups");
  if (!groups || !groups->is_object()) return !JsonFind(scheme, "kv_cache_scheme");
  for (const auto& [name, group] : groups->items())
    if (JsonFind(group, "weights")) return true;
  return false;
}

// The engine's own test at start; "" if it passes.
std::string ModelOptRefusal(const Json& said, std::string_view family) {
  if (family != kModelOptFamily)
    return fmt::format("the engine accepts it only for {} models", kModelOptFamily);
  const std::string kv_cache = TextOf(said, "kv_cache_quant_algo");
  if (Lower(kv_cache) != kFp8)
    return fmt::format(
        "the engine fails at start: kv_cache_quant_algo is {}, and it accepts only FP8",
        kv_cache.empty() ? "not there" : kv_cache);
  const Json* excluded = JsonFind(said, "exclude_modules");
  const bool has_head =
      excluded && excluded->is_array() && std::ranges::any_of(*excluded, [](const Json& pattern) {
        return pattern.is_string() && GlobMatch(pattern.get_ref<const std::string&>(), "lm_head");
      });
  return has_head ? "" : "the engine fails at start: no pattern of exclude_modules is lm_head's";
}

void Decide(const Json& said, std::string_view family, ServedScheme& out) {
  const Json* nested = JsonFind(said, "quantization");
  const bool is_nested = nested && nested->is_object();
  const Json& inner = is_nested ? *nested : said;
  std::string method = Lower(TextOf(said, "quant_method"));
  if (const Json* producer = JsonFind(said, "producer"); method.empty() && producer && is_nested)
    method = Lower(TextOf(*producer, "name"));
  const std::string algorithm = TextOf(inner, "quant_algo");
  for (const char* key : {"kv_cache_quant_algo", "kv_cache_scheme"})
    if (out.kv_cache.empty() && IsSet(inner, key)) out.kv_cache = key;
  if (method == kModelOpt && Lower(algorithm) == kFp8) {
    out.name = "modelopt FP8";
    out.refusal = ModelOptRefusal(inner, family);
    return;
  }
  if (method == "compressed-tensors") {
    if (!QuantisesWeights(said)) return;
    out.name = method;
    out.refusal = "the engine refuses compressed-tensors schemes for weights at start";
    return;
  }
  out.name = fmt::format("{}{}{}", method.empty() ? "unnamed" : method,
                         algorithm.empty() ? "" : " ", algorithm);
  out.refusal = "it is none of the schemes that the engine takes of this family";
}

class SchemeCheck {
 public:
  SchemeCheck(const ServedFolder& folder, const models::Model& model, const ServedScheme& scheme,
              ServeReport& report)
      : folder_(folder), model_(model), scheme_(scheme), report_(report) {}

  void Run() {
    if (!scheme_.refusal.empty())
      return Add(Finding("quantisation", fmt::format("{}: {}", scheme_.name, scheme_.refusal))
                     .in(scheme_.path));
    for (const models::Param& param : model_.params)
      if (const StoredTensor* tensor = folder_.Find(param.name)) Look(*tensor, param);
    for (const auto& [name, tensor] : folder_.tensors)
      if (IsWeightScale(name)) LookAtScale(*tensor);
  }

 private:
  void Look(const StoredTensor& tensor, const models::Param& param) {
    const bool is_fp8 = tensor.dtype == Dtype::kF8E4M3;
    const bool wanted = IsQuantised(param, scheme_);
    if (is_fp8 == wanted && (is_fp8 || Info(tensor.dtype).floating)) return;
    Add(On(tensor, "dtype", fmt::format("{} {}", Name(tensor.dtype), Meaning(is_fp8, wanted))));
  }

  const char* Meaning(bool is_fp8, bool wanted) const {
    if (scheme_.name.empty())
      return "and no quantization_config in config.json: the numbers are loaded without their "
             "scales";
    if (wanted)
      return "is not the scheme's FP8, which the engine expects for every projection, whatever "
             "exclude_modules says";
    if (is_fp8)
      return "and not a projection of a layer: the numbers are loaded without their scales";
    return "is not the scheme's FP8";
  }

  // Scales of FP8 weights without a scheme are not reported: the weights are.
  void LookAtScale(const StoredTensor& tensor) {
    const StoredTensor* weight =
        folder_.Find(tensor.name.substr(0, tensor.name.rfind('.')) + ".weight");
    if (weight && weight->dtype == Dtype::kF8E4M3 && !tensor.name.ends_with("_inv")) return;
    Add(On(tensor, "ignored",
           scheme_.name.empty() ? "the scale of no FP8 weight: it is passed over"
                                : "the scale of no weight of the scheme: it is passed over"));
  }

  static Finding On(const StoredTensor& tensor, const char* check, std::string message) {
    return Finding(check, std::move(message)).in(tensor.storage->path()).on(tensor.name);
  }
  void Add(Finding finding) { report_.findings.push_back(std::move(finding)); }

  const ServedFolder& folder_;
  const models::Model& model_;
  const ServedScheme& scheme_;
  ServeReport& report_;
};

}  // namespace

Result<ServedScheme> ReadServedScheme(const ServedFolder& folder, const models::Model& model) {
  const Artifact& artifact = folder.artifact;
  ServedScheme out;
  out.path = artifact.config_path;
  const std::string& family = model.config.family->model_type;
  NXDKIT_ASSIGN(const Json config, ParseJson(artifact.config_text).in(artifact.config_path));
  if (const Json* said = JsonFind(config, "quantization_config")) {
    if (said->is_object() && !said->empty()) Decide(*said, family, out);
    return out;
  }
  NXDKIT_ASSIGN(const bool beside, artifact.look.HasFile(artifact.path, kModelOptFile));
  if (!beside) return out;
  out.path = JoinPath(artifact.path, kModelOptFile);
  NXDKIT_ASSIGN(const Json said, ReadJsonFile(out.path, models::kMaxConfigBytes));
  Decide(said, family, out);
  return out;
}

bool IsQuantised(const models::Param& param, const ServedScheme& scheme) {
  return scheme.quantises() && param.layer >= 0 && param.name.ends_with(kProjection);
}

std::vector<std::string> ScaleNames(const models::Param& param) {
  const std::string module = param.name.substr(0, param.name.rfind('.'));
  std::vector<std::string> names = {module + ".weight_scale"};
  if (!module.ends_with(".up_proj")) names.push_back(module + ".input_scale");
  return names;
}

bool IsWeightScale(std::string_view name) {
  return name.ends_with(".weight_scale") || name.ends_with(".input_scale") ||
         name.ends_with(".weight_scale_inv");
}

void CheckServedScheme(const ServedFolder& folder, const models::Model& model,
                       const ServedScheme& scheme, ServeReport& report) {
  SchemeCheck(folder, model, scheme, report).Run();
}

}  // namespace nxdkit::ops
