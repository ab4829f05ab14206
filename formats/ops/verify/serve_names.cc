#include "formats/ops/verify/serve_names.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "formats/models/view.h"
#include "lib/base/text.h"

namespace nxdkit::ops {
namespace {

using models::Param;

// The parameters that a tensor of another spelling holds.
struct Spelled {
  std::string spelling;
  std::vector<uint32_t> params;
};

class NameCheck {
 public:
  NameCheck(const ServedFolder& folder, const models::Model& model, const ServedScheme& scheme,
            ServeReport& report)
      : folder_(folder),
        model_(model),
        scheme_(scheme),
        report_(report),
        explained_(model.params.size()) {
    for (uint32_t i = 0; i < model.params.size(); ++i) known_.emplace(model.params[i].name, i);
    for (const models::Alias& alias : model.config.aliases) beside_.insert(alias.name);
    for (int64_t layer = 0; layer < model.config.layers; ++layer)
      for (const char of : {'k', 'v'}) {
        beside_.insert(KvScaleName(layer, of));
        beside_.insert(ModelOptKvScaleName(layer, of));
      }
  }

  Status Run() {
    const size_t before = report_.findings.size();
    NXDKIT_TRY(ReadSpellings());
    for (const auto& [name, tensor] : folder_.tensors) Look(*tensor);
    ReportMissing();
    const size_t scales = ReportMissingScales();
    ReportCasts();
    if (report_.findings.size() == before)
      report_.checks.push_back(fmt::format(
          "names: all {} tensors that the loader asks for are here{}",
          model_.params.size() + scales,
          scales > 0 ? fmt::format(", {} scales of FP8 weights among them", scales) : ""));
    return OkStatus();
  }

 private:
  void Add(Finding finding) { report_.findings.push_back(std::move(finding)); }

  // Other spellings have several parameters in one tensor, or other names for them.
  Status ReadSpellings() {
    for (const std::string& spelling : models::Spellings(*model_.config.family)) {
      NXDKIT_ASSIGN(const std::vector<TensorLayout> tensors,
                    models::SpelledTensors(model_, spelling, false));
      for (const TensorLayout& tensor : tensors)
        spelled_.emplace(tensor.name, Spelled{spelling, ParamsOf(tensor)});
    }
    return OkStatus();
  }

  void Look(const StoredTensor& tensor) {
    if (const auto it = known_.find(tensor.name); it != known_.end())
      return LookAtParam(tensor, model_.params[it->second]);
    if (beside_.contains(tensor.name)) return;  // checked by value
    if (models::IsIgnorable(*model_.config.family, tensor.name)) return;
    if (const auto it = spelled_.find(tensor.name); it != spelled_.end())
      return AddSpelled(tensor, it->second);
    AddIgnored(tensor);
  }

  void LookAtParam(const StoredTensor& tensor, const Param& param) {
    if (tensor.shape != param.shape)
      Add(On(tensor, "shape",
             fmt::format("shape {} found, config.json gives {}: {}", ShapeText(tensor.shape),
                         ShapeText(param.shape), ShapeMeaning(tensor.shape, param)))
              .differs(ShapeText(tensor.shape), ShapeText(param.shape)));
    const bool casts = Info(tensor.dtype).floating;
    if (casts && tensor.dtype != report_.dtype) ++cast_[tensor.dtype];
  }

  // Ranges past the end are cut short without an error, and load_state_dict compares shapes at the
  // end: those of the embedding, which its loader fills with zeros, are always right.
  static const char* ShapeMeaning(const Shape& found, const Param& param) {
    if (found.size() == param.shape.size()) {
      bool longer = true, shorter = true;  // along the dimension that is cut, and no other
      for (size_t d = 0; d < found.size(); ++d) {
        const bool cut = static_cast<int>(d) == param.CutDim();
        longer &= cut ? found[d] > param.shape[d] : found[d] == param.shape[d];
        shorter &= cut ? found[d] < param.shape[d] : found[d] == param.shape[d];
      }
      if (longer) return "the loader ignores the rest, without an error";
      if (shorter && param.role == models::Role::kEmbedding)
        return "the loader takes zeros for the rows that are not there, without an error";
    }
    return "the parameter that is made of it has another shape too, and the loader ends with an "
           "error";
  }

  void AddSpelled(const StoredTensor& tensor, const Spelled& spelled) {
    size_t absent = 0;
    for (const uint32_t param : spelled.params)
      if (!folder_.Find(model_.params[param].name)) {
        explained_[param] = true;
        ++absent;
      }
    if (absent == 0) return AddIgnored(tensor);
    const std::string& first = model_.params[spelled.params.front()].name;
    const bool fused = spelled.params.size() > 1;
    Add(On(tensor, fused ? "fused" : "missing",
           fmt::format("a name in the spelling \"{}\", which the loader does not look for: it asks "
                       "for {}, such as {}",
                       spelled.spelling,
                       fused ? fmt::format("{} tensors", spelled.params.size())
                             : std::string("another name"),
                       first)));
  }

  void AddIgnored(const StoredTensor& tensor) {
    if (IsWeightScale(tensor.name)) return;  // reported with the scheme
    Add(On(tensor, "ignored", "no parameter of the engine has this name: it is passed over"));
  }

  // Reports the experts of a layer together: there are thousands of them.
  void ReportMissing() {
    std::map<int, std::vector<uint32_t>> experts;
    for (uint32_t i = 0; i < model_.params.size(); ++i) {
      const Param& param = model_.params[i];
      if (explained_[i] || folder_.Find(param.name)) continue;
      if (param.expert >= 0) {
        experts[param.layer].push_back(i);
        continue;
      }
      Add(MissingFinding(param.name, 1, ""));
    }
    for (const auto& [layer, missing] : experts)
      Add(MissingFinding(model_.params[missing.front()].name, missing.size(), "experts"));
  }

  // Reports those of a layer together. Returns the number that the engine asks for.
  size_t ReportMissingScales() {
    size_t asked = 0;
    std::map<int, std::vector<std::string>> missing;
    for (const Param& param : model_.params) {
      if (!IsQuantised(param, scheme_)) continue;
      for (std::string& name : ScaleNames(param)) {
        ++asked;
        if (!folder_.Find(name)) missing[param.layer].push_back(std::move(name));
      }
    }
    for (const auto& [layer, names] : missing)
      Add(MissingFinding(names.front(), names.size(), "scales"));
    return asked;
  }

  // `of`: the kind of tensor of which a layer lacks `count`.
  Finding MissingFinding(const std::string& name, size_t count, const char* of) const {
    const std::string more =
        count > 1 ? fmt::format(" (and {} more of the layer's {})", count - 1, of) : "";
    Finding finding("missing", fmt::format("the loader asks for it and fails{}", more));
    finding.count = static_cast<int64_t>(count);
    return std::move(finding).in(folder_.artifact.path).on(name).of(name);
  }

  static Finding On(const StoredTensor& tensor, const char* check, std::string message) {
    return Finding(check, std::move(message)).in(tensor.storage->path()).on(tensor.name);
  }

  void ReportCasts() {
    for (const auto& [dtype, count] : cast_)
      report_.warnings.push_back(fmt::format(
          "{} tensor{} {} and cast to {} as {} loaded", count, count == 1 ? " is" : "s are",
          Name(dtype), Name(report_.dtype), count == 1 ? "it is" : "they are"));
  }

  const ServedFolder& folder_;
  const models::Model& model_;
  const ServedScheme& scheme_;
  ServeReport& report_;
  std::unordered_map<std::string_view, uint32_t> known_;
  std::unordered_set<std::string> beside_;  // checked by value
  std::unordered_map<std::string, Spelled> spelled_;
  std::vector<bool> explained_;  // for parameters that are there under another name
  std::map<Dtype, size_t> cast_;
};

}  // namespace

std::string KvScaleName(int64_t layer, char of) {
  return fmt::format("model.layers.{}.self_attn.{}_scale", layer, of);
}

std::string ModelOptKvScaleName(int64_t layer, char of) {
  return fmt::format("model.layers.{}.self_attn.{}_proj.{}_scale", layer, of, of);
}

Status CheckServedNames(const ServedFolder& folder, const models::Model& model,
                        const ServedScheme& scheme, ServeReport& report) {
  return NameCheck(folder, model, scheme, report).Run();
}

}  // namespace nxdkit::ops
