#include "trainer/model/rope_config.h"

#include <fmt/format.h>

#include <array>
#include <numbers>

namespace nxdkit::trainer {
namespace {

constexpr char kOriginal[] = "original_max_position_embeddings";
constexpr std::array<std::string_view, 5> kTypes = {"default", "linear", "dynamic", "yarn",
                                                    "llama3"};

// Llama 3.1: long wavelengths are slowed by `factor`, short ones kept, with a smooth transition.
struct Llama3 {
  double factor = 1, low = 1, high = 1, old = 1;
  double Slowed(double frequency) const {
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength > old / low) return frequency / factor;
    if (wavelength < old / high) return frequency;
    const double smooth = (old / wavelength - low) / (high - low);
    return (1 - smooth) * frequency / factor + smooth * frequency;
  }
};

// YaRN: frequencies with many turns within the original length are kept, those with less than one
// are slowed by `factor`, with linear interpolation by index between them.
struct Yarn {
  double factor = 1, low = 0, high = 0;
  double Slowed(double frequency, int64_t i) const {
    const double width = high == low ? 0.001 : high - low;
    const double slowed = std::clamp((static_cast<double>(i) - low) / width, 0.0, 1.0);
    return frequency / factor * slowed + frequency * (1 - slowed);
  }
};

class Rope {
 public:
  Rope(ConfigReader& reader, int64_t head_dim, int64_t max_positions)
      : json_(reader.json()),
        reader_(reader),
        dim_(static_cast<double>(head_dim)),
        max_positions_(static_cast<double>(max_positions)) {
    const bool scaled = IsSaid("rope_scaling");
    source_ = scaled || !IsSaid("rope_parameters") ? "rope_scaling" : "rope_parameters";
    const Json* rules = JsonFind(json_, source_);
    if (rules && rules->is_object())
      rules_ = rules;
    else if (rules && IsSaid(source_))
      reader_.Fail(Errc::kCorrupt, source_,
                   fmt::format("found {}, expected an object", JsonExcerpt(*rules)));
    for (const auto& [key, value] : rules_->items())
      if (value.is_object())
        reader_.NotBuilt(source_, fmt::format("a separate rotary embedding for {}", key));
    constexpr char kTheta[] = "rope_theta";
    theta_ = reader_.Number(rules_->contains(kTheta) ? *rules_ : json_, kTheta, 10000);
  }

  RopeRule Rule() {
    const std::string type = Type();
    if (std::ranges::find(kTypes, type) == kTypes.end())
      reader_.Fail(Errc::kUnsupported, source_,
                   fmt::format("rope type {} is not supported by this trainer: {} are", type,
                               fmt::join(kTypes, ", ")));
    if (type != "default") RequireWholeHeads();
    RopeRule rule;
    const double slower = type == "linear" ? Needed("factor", type) : 1;
    if (type == "dynamic") CheckDynamic();
    const Llama3 llama3 = type == "llama3" ? ReadLlama3() : Llama3();
    const Yarn yarn = type == "yarn" ? ReadYarn(rule.scale) : Yarn();
    for (int64_t i = 0; 2 * i < static_cast<int64_t>(dim_); ++i) {
      double frequency = 1 / std::pow(theta_, static_cast<double>(2 * i) / dim_) / slower;
      if (type == "llama3") frequency = llama3.Slowed(frequency);
      if (type == "yarn") frequency = yarn.Slowed(frequency, i);
      rule.frequencies.push_back(static_cast<float>(frequency));
    }
    RequireFinite(rule, type);
    return rule;
  }

 private:
  Llama3 ReadLlama3() {
    return {Needed("factor", "llama3"), Needed("low_freq_factor", "llama3"),
            Needed("high_freq_factor", "llama3"), OriginalPositions()};
  }

  Yarn ReadYarn(float& scale) {
    if (theta_ == 1)
      reader_.Fail(Errc::kCorrupt, "rope_theta",
                   "found 1, and rope type yarn divides by its logarithm");
    const double old = OriginalPositions();
    // Null means the quotient of the two lengths.
    const bool is_null = IsNull("factor");
    Yarn yarn;
    yarn.factor = is_null ? max_positions_ / old : Needed("factor", "yarn");
    scale = static_cast<float>(AttentionFactor(yarn.factor));
    yarn.low = Turns(OrElse("beta_fast", 32), old);
    yarn.high = Turns(OrElse("beta_slow", 1), old);
    if (!IsNull("truncate") && reader_.Flag(*rules_, "truncate", true)) {
      yarn.low = std::floor(yarn.low);
      yarn.high = std::ceil(yarn.high);
    }
    yarn.low = std::max(yarn.low, 0.0);
    yarn.high = std::min(yarn.high, dim_ - 1);
    return yarn;
  }

  // The index whose frequency makes `times` turns within `positions`.
  double Turns(double times, double positions) const {
    return dim_ * std::log(positions / (times * 2 * std::numbers::pi)) / (2 * std::log(theta_));
  }
  double AttentionFactor(double factor) {
    if (JsonFind(*rules_, "attention_factor"))
      return reader_.Number(*rules_, "attention_factor", 1);
    const auto of = [&](double by) { return factor <= 1 ? 1 : 0.1 * by * std::log(factor) + 1; };
    const double by = OrElse("mscale", 0);
    const double all = OrElse("mscale_all_dim", 0);
    return by != 0 && all != 0 ? of(by) / of(all) : of(1);
  }

  bool IsSaid(const char* key) const {
    const Json* value = JsonFind(json_, key);
    return value && !(value->is_object() && value->empty());
  }
  bool IsNull(const char* key) const { return rules_->contains(key) && !JsonFind(*rules_, key); }
  // The value of the key's new name if present, else of the old one.
  std::string Type() const {
    for (const char* key : {"rope_type", "type"}) {
      const auto type = rules_->find(key);
      if (type == rules_->end()) continue;
      if (type->is_string()) return type->get<std::string>();
      reader_.Fail(Errc::kCorrupt, key,
                   fmt::format("found {} in {}, expected the name of a rope type",
                               JsonExcerpt(*type), source_));
    }
    return "default";
  }
  // The top-level key wins.
  double OriginalPositions() {
    return reader_.Number(json_.contains(kOriginal) ? json_ : *rules_, kOriginal, max_positions_);
  }
  // Up to the model's own length its frequencies are those of type default; transformers still
  // divides by the rest of a head without its first pair.
  void CheckDynamic() {
    Needed("factor", "dynamic");
    if (dim_ == 2)
      reader_.Fail(Errc::kCorrupt, source_,
                   "rope type dynamic needs heads of more than 2, found 2");
  }
  // Numbers that are valid one by one may produce values that no float holds.
  void RequireFinite(const RopeRule& rule, const std::string& type) {
    const auto bad = std::ranges::find_if_not(rule.frequencies,
                                              [](float value) { return std::isfinite(value); });
    if (bad == rule.frequencies.end() && std::isfinite(rule.scale)) return;
    reader_.Fail(Errc::kCorrupt, source_,
                 fmt::format("rope type {} makes a {} of {} of its numbers, with a rope_theta of "
                             "{}",
                             type, bad == rule.frequencies.end() ? "scale" : "frequency",
                             bad == rule.frequencies.end() ? rule.scale : *bad, theta_));
  }
  // Zero counts as missing.
  double OrElse(const char* key, double fallback) {
    const Json* value = JsonFind(*rules_, key);
    return value && *value == 0 ? fallback : reader_.NumberOrNull(*rules_, key, fallback);
  }
  double Needed(const char* key, std::string_view type) {
    if (!rules_->contains(key))
      reader_.Fail(Errc::kCorrupt, source_, fmt::format("rope type {} needs a {}", type, key));
    return reader_.Number(*rules_, key, 1);
  }
  // Those types rotate only part of each head then; type default ignores the key.
  void RequireWholeHeads() {
    constexpr char kShare[] = "partial_rotary_factor";
    const double share = rules_->contains(kShare) ? reader_.Number(*rules_, kShare, 1)
                                                  : reader_.NumberOrNull(json_, kShare, 1);
    if (share != 1)
      reader_.Fail(Errc::kUnsupported, kShare,
                   fmt::format("{} is not supported by this trainer: 1 is", share));
  }

  static inline const Json kNone = Json::object();
  const Json& json_;
  ConfigReader& reader_;
  const double dim_, max_positions_;
  const char* source_;
  const Json* rules_ = &kNone;
  double theta_;
};

}  // namespace

RopeRule ReadRope(ConfigReader& reader, int64_t head_dim, int64_t max_positions) {
  return Rope(reader, head_dim, max_positions).Rule();
}

}  // namespace nxdkit::trainer
