#include "trainer/model/decoder_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <utility>

#include "lib/base/errors.h"
#include "lib/json/json.h"

namespace nxdkit::trainer {
namespace {

constexpr int64_t kMaxPositions = int64_t{1} << 24;

// Reads the keys of a config; the first failure is kept.
class Reader {
 public:
  Reader(const Json& json, std::string path) : json_(json), path_(std::move(path)) {}

  double Number(const Json& object, const char* key, double fallback) {
    const Json* value = JsonFind(object, key);
    if (!value) return fallback;
    if (value->is_number() && std::isfinite(value->get<double>()) && value->get<double>() > 0)
      return value->get<double>();
    Fail(Errc::kCorrupt, key,
         fmt::format("found {}, expected a positive number", JsonExcerpt(*value)));
    return fallback;
  }
  // What must not be there, or be one of the harmless values.
  void Require(const char* key, std::initializer_list<Json> harmless) {
    const Json* value = JsonFind(json_, key);
    if (!value || std::ranges::find(harmless, *value) != harmless.end()) return;
    Fail(Errc::kUnsupported, key,
         fmt::format("{} is not built into this trainer", JsonExcerpt(*value)));
  }
  void Fail(Errc code, const char* key, std::string what) {
    if (!error_) error_ = Error(code, std::move(what)).in(path_).member(key);
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  const Json& json_;
  std::string path_;
  std::optional<Error> error_;
};

// The rules of the rotary embedding, as transformers 5 finds them in a config.json.
class Rope {
 public:
  Rope(const Json& json, int64_t max_positions, Reader& reader)
      : json_(json), max_positions_(static_cast<double>(max_positions)), reader_(reader) {
    const bool scaled = IsSaid("rope_scaling");
    source_ = scaled || !IsSaid("rope_parameters") ? "rope_scaling" : "rope_parameters";
    const Json* rules = JsonFind(json, source_);
    if (rules && rules->is_object())
      rules_ = rules;
    else if (rules && IsSaid(source_))
      reader_.Fail(Errc::kCorrupt, source_,
                   fmt::format("found {}, expected an object", JsonExcerpt(*rules)));
  }

  std::vector<float> Frequencies(int64_t head_dim) {
    const double theta = reader_.Number(*rules_, "rope_theta", Top("rope_theta", 10000));
    const std::string type = Type();
    if (type != "default" && type != "linear" && type != "llama3")
      reader_.Fail(Errc::kUnsupported, source_,
                   fmt::format("rope type {} is not built into this trainer: default, linear and "
                               "llama3 are",
                               type));
    if (type != "default") RequireWholeHeads();
    const double slower = type == "linear" ? Needed("factor", type) : 1;
    const Llama3 llama3 = type == "llama3" ? ReadLlama3() : Llama3();
    std::vector<float> frequencies;
    for (int64_t i = 0; i < head_dim / 2; ++i) {
      const double power = static_cast<double>(2 * i) / static_cast<double>(head_dim);
      const double frequency = 1 / std::pow(theta, power) / slower;
      frequencies.push_back(
          static_cast<float>(type == "llama3" ? llama3.Slowed(frequency) : frequency));
    }
    return frequencies;
  }

 private:
  // Llama 3.1: long wavelengths are slowed by `factor`, short ones kept, a smooth step between.
  struct Llama3 {
    double factor = 1, low = 1, high = 1, old = 1;
    double Slowed(double frequency) const {
      const double wavelength = 2 * std::numbers::pi / frequency;
      if (wavelength < old / high) return frequency;
      if (wavelength > old / low) return frequency / factor;
      const double smooth = (old / wavelength - low) / (high - low);
      return (1 - smooth) * frequency / factor + smooth * frequency;
    }
  };
  Llama3 ReadLlama3() {
    constexpr char kOriginal[] = "original_max_position_embeddings";
    const double own = reader_.Number(*rules_, kOriginal, max_positions_);
    return {Needed("factor", "llama3"), Needed("low_freq_factor", "llama3"),
            Needed("high_freq_factor", "llama3"), Top(kOriginal, own)};
  }

  bool IsSaid(const char* key) const {
    const Json* value = JsonFind(json_, key);
    return value && !(value->is_object() && value->empty());
  }
  std::string Type() const {
    for (const char* key : {"rope_type", "type"})
      if (const Json* type = JsonFind(*rules_, key); type && type->is_string())
        return type->get<std::string>();
    return "default";
  }
  double Top(const char* key, double fallback) { return reader_.Number(json_, key, fallback); }
  double Needed(const char* key, std::string_view type) {
    const Json* value = JsonFind(*rules_, key);
    if (!value)
      reader_.Fail(Errc::kCorrupt, source_, fmt::format("rope type {} needs a {}", type, key));
    return reader_.Number(*rules_, key, 1);
  }
  // Those types turn only a part of each head then; type default ignores the key.
  void RequireWholeHeads() {
    constexpr char kShare[] = "partial_rotary_factor";
    const double share = reader_.Number(*rules_, kShare, Top(kShare, 1));
    if (share != 1)
      reader_.Fail(Errc::kUnsupported, kShare,
                   fmt::format("{} is not built into this trainer: 1 is", share));
  }

  static inline const Json kNone = Json::object();
  const Json& json_;
  const double max_positions_;
  Reader& reader_;
  const char* source_;
  const Json* rules_ = &kNone;
};

}  // namespace

Result<DecoderConfig> ParseDecoderConfig(std::string_view json_text, const std::string& path) {
  DecoderConfig config;
  NXDKIT_ASSIGN(const models::ModelConfig shapes, models::ParseConfig(json_text, path));
  auto model = models::MakeModel(shapes);
  if (!model.ok()) return std::move(model).error().in(path);
  config.model = *std::move(model);
  NXDKIT_ASSIGN(const Json json,
                ParseJson(json_text, {.allow_nan = true, .allow_duplicate_keys = true}));
  const std::string& type = shapes.model_type;
  if (type != "llama" && type != "qwen2" && type != "qwen3")
    return Unsupported("model_type {} cannot be trained: llama, qwen2 and qwen3 can", type)
        .in(path)
        .member("model_type");
  Reader reader(json, path);
  reader.Require("hidden_act", {"silu"});
  reader.Require("attention_dropout", {0, 0.0});
  reader.Require("use_sliding_window", {false});
  if (shapes.output_bias)
    reader.Fail(Errc::kUnsupported, "attention_bias",
                "a bias of the output projection is not built into this trainer");
  if (shapes.mlp_bias)
    reader.Fail(Errc::kUnsupported, "mlp_bias",
                "biases of the MLP are not built into this trainer");
  if (shapes.labels > 1)
    reader.Fail(Errc::kUnsupported, "id2label",
                fmt::format("{} scores of each token are not built into this trainer: 1 is",
                            shapes.labels));
  if (shapes.head_dim % 2 != 0)
    reader.Fail(Errc::kCorrupt, "head_dim",
                fmt::format("{} is odd: rotary embedding turns pairs", shapes.head_dim));
  config.rms_eps = static_cast<float>(reader.Number(json, "rms_norm_eps", 1e-6));
  const double positions =
      reader.Number(json, "max_position_embeddings", type == "llama" ? 2048 : 32768);
  if (positions > static_cast<double>(kMaxPositions))
    reader.Fail(Errc::kCorrupt, "max_position_embeddings",
                fmt::format("{} is over the limit of {}", positions, kMaxPositions));
  config.max_positions = static_cast<int64_t>(positions);
  config.rope_frequencies = Rope(json, config.max_positions, reader).Frequencies(shapes.head_dim);
  config.head_norm = type == "qwen3";
  if (reader.error()) return *reader.error();
  return config;
}

}  // namespace nxdkit::trainer
