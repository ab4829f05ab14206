#include "formats/ops/verify/serve_scales.h"

#include <fmt/core.h>

#include <cmath>

#include "formats/ops/verify/serve_names.h"

namespace nxdkit::ops {
namespace {

using models::Param;
using models::Role;

bool IsInputOfQkv(const Param& param, std::string_view scale) {
  const bool qkv =
      param.role == Role::kQuery || param.role == Role::kKey || param.role == Role::kValue;
  return qkv && scale.ends_with(".input_scale");
}

class ScaleCheck {
 public:
  ScaleCheck(const ServedFolder& folder, const models::Model& model, const ServedScheme& scheme,
             ServeReport& report)
      : folder_(folder), model_(model), scheme_(scheme), report_(report) {}

  Status Run() {
    NXDKIT_TRY(CheckKvScales());
    return scheme_.quantises() ? CheckFp8Scales() : OkStatus();
  }

 private:
  static Finding On(const StoredTensor& tensor, const char* check, std::string message) {
    return Finding(check, std::move(message)).in(tensor.storage->path()).on(tensor.name);
  }
  void Add(Finding finding) { report_.findings.push_back(std::move(finding)); }

  Status CheckKvScales() {
    size_t here = 0, renamed = 0;
    std::string absent;
    for (int64_t layer = 0; layer < model_.config.layers; ++layer)
      for (const char of : {'k', 'v'}) {
        const std::string key = KvScaleName(layer, of);
        const StoredTensor* tensor = folder_.Find(key);
        const StoredTensor* other = folder_.Find(ModelOptKvScaleName(layer, of));
        if (tensor) {
          ++here;
          NXDKIT_TRY(CheckKvScale(*tensor));
        } else if (other) {
          ++renamed;
          NXDKIT_TRY(CheckRenamed(*other, key));
        } else if (absent.empty()) {
          absent = key;
        }
      }
    if (here > 0) ReportKvScales(here, absent);
    if (here + renamed == 0 && !scheme_.kv_cache.empty() && scheme_.refusal.empty())
      Add(Finding("KV scale", fmt::format("{} announces a quantised KV cache, but there is no KV "
                                          "scale: the engine uses 1.0 in every layer",
                                          scheme_.kv_cache))
              .in(scheme_.path));
    return OkStatus();
  }

  void ReportKvScales(size_t here, const std::string& absent) {
    if (!absent.empty())
      Add(Finding("KV scale",
                  fmt::format("there are {} other KV scales; without this one the engine uses 1.0",
                              here))
              .in(folder_.artifact.path)
              .on(absent));
    report_.warnings.push_back(fmt::format(
        "{} KV scales are used if the KV cache is FP8, as 1 / scale in BF16: they are constants of "
        "the compiled graph, so a graph compiled for other values uses those; no graph was read",
        here));
  }

  // The loader reads it with a slice, which a tensor without dimensions does not have.
  Status CheckKvScale(const StoredTensor& tensor) {
    if (tensor.shape.empty() || !IsOneNumber(tensor)) {
      Add(On(tensor, "KV scale",
             fmt::format("{} {} found, expected one floating point number in [1]: the loader fails "
                         "on others",
                         Name(tensor.dtype), ShapeText(tensor.shape)))
              .differs(ShapeText(tensor.shape), "[1]"));
      return OkStatus();
    }
    NXDKIT_ASSIGN(const double scale, ReadSingle(tensor));
    if (scale > 0 && std::isfinite(scale)) return OkStatus();
    Add(On(tensor, "KV scale", fmt::format("{} found: the engine stores 1 / scale", scale))
            .differs(fmt::format("{}", scale), "a finite number above 0"));
    return OkStatus();
  }

  // ModelOpt's name, which the loader ignores: it makes no difference if the scale is 1.0.
  Status CheckRenamed(const StoredTensor& tensor, const std::string& asked) {
    std::string found = ShapeText(tensor.shape);
    if (IsOneNumber(tensor)) {
      NXDKIT_ASSIGN(const double scale, ReadSingle(tensor));
      if (scale == 1) return OkStatus();
      found = fmt::format("{}", scale);
    }
    Add(On(tensor, "KV scale",
           fmt::format("{} found: the loader asks for {}, and uses 1.0 without it", found, asked))
            .differs(found, "1"));
    return OkStatus();
  }

  Status CheckFp8Scales() {
    size_t good = 0;
    for (const Param& param : model_.params) {
      if (!IsQuantised(param, scheme_)) continue;
      for (const std::string& name : ScaleNames(param)) {
        const StoredTensor* tensor = folder_.Find(name);
        if (!tensor) continue;
        NXDKIT_ASSIGN(const bool is_good, CheckFp8Scale(*tensor, param));
        if (is_good) ++good;
      }
    }
    if (good > 0)
      report_.checks.push_back(fmt::format(
          "FP8: {} scales are numbers above 0, in the form that the loader expects", good));
    return OkStatus();
  }

  Result<bool> CheckFp8Scale(const StoredTensor& tensor, const Param& param) {
    if (!IsOneNumber(tensor)) {
      Add(On(tensor, "FP8 scale",
             fmt::format(
                 "{} {} found, expected one floating point number: the loader fails on others",
                 Name(tensor.dtype), ShapeText(tensor.shape)))
              .differs(ShapeText(tensor.shape), "one element"));
      return false;
    }
    NXDKIT_ASSIGN(const double scale, ReadSingle(tensor));
    if (!(scale > 0) || !std::isfinite(scale)) {
      Add(On(tensor, "FP8 scale", fmt::format("{} found", scale))
              .differs(fmt::format("{}", scale), "a finite number above 0"));
      return false;
    }
    return !IsInputOfQkv(param, tensor.name) || IsAsQuery(tensor, param, scale);
  }

  // The parameters of a layer come with the queries first.
  bool IsAsQuery(const StoredTensor& tensor, const Param& param, double scale) {
    const auto [it, is_first] = input_scales_.emplace(param.layer, scale);
    if (it->second == scale) return true;
    Add(On(tensor, "FP8 scale",
           fmt::format("{} found, and {} of another of q_proj, k_proj and v_proj: the loader ends "
                       "where their input scales differ",
                       scale, it->second))
            .differs(fmt::format("{}", scale), fmt::format("{}", it->second)));
    return false;
  }

  static bool IsOneNumber(const StoredTensor& tensor) {
    return Info(tensor.dtype).floating && ElementCount(tensor.shape) == 1;
  }

  const ServedFolder& folder_;
  const models::Model& model_;
  const ServedScheme& scheme_;
  ServeReport& report_;
  std::map<int, double> input_scales_;  // of each layer's q_proj, k_proj and v_proj
};

}  // namespace

Status CheckServedScales(const ServedFolder& folder, const models::Model& model,
                         const ServedScheme& scheme, ServeReport& report) {
  return ScaleCheck(folder, model, scheme, report).Run();
}

}  // namespace nxdkit::ops
