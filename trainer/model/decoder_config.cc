#include "trainer/model/decoder_config.h"

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <utility>

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
    if (!value || value->is_null()) return fallback;
    if (value->is_number() && std::isfinite(value->get<double>()) && value->get<double>() > 0)
      return value->get<double>();
    Fail(Errc::kCorrupt, key,
         fmt::format("found {}, expected a positive number", JsonExcerpt(*value)));
    return fallback;
  }
  // What must not be there, or be one of the harmless values.
  void Require(const char* key, std::initializer_list<Json> harmless) {
    const Json* value = JsonFind(json_, key);
    if (!value || value->is_null()) return;
    for (const Json& one : harmless)
      if (*value == one) return;
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

std::string RopeType(const Json& scaling) {
  for (const char* key : {"rope_type", "type"})
    if (const Json* type = JsonFind(scaling, key); type && type->is_string())
      return type->get<std::string>();
  return "default";
}

// Llama 3.1: long wavelengths are slowed by `factor`, short ones kept, a smooth step between.
double Llama3(double frequency, const Json& scaling, Reader& reader) {
  const double factor = reader.Number(scaling, "factor", 8);
  const double low = reader.Number(scaling, "low_freq_factor", 1);
  const double high = reader.Number(scaling, "high_freq_factor", 4);
  const double old = reader.Number(scaling, "original_max_position_embeddings", 8192);
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < old / high) return frequency;
  if (wavelength > old / low) return frequency / factor;
  const double smooth = (old / wavelength - low) / (high - low);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

std::vector<float> Frequencies(const Json& json, int64_t head_dim, Reader& reader) {
  const Json* parameters = JsonFind(json, "rope_parameters");
  const bool nested = parameters && parameters->is_object();
  const Json* scaling = nested ? parameters : JsonFind(json, "rope_scaling");
  const Json none = Json::object();
  const Json& rules = scaling && scaling->is_object() ? *scaling : none;
  const double theta = reader.Number(nested ? rules : json, "rope_theta", 10000);
  const std::string type = RopeType(rules);
  const double slower = type == "linear" ? reader.Number(rules, "factor", 1) : 1;
  if (type != "default" && type != "linear" && type != "llama3")
    reader.Fail(Errc::kUnsupported, nested ? "rope_parameters" : "rope_scaling",
                fmt::format("rope type {} is not built into this trainer: default, linear and "
                            "llama3 are",
                            type));
  std::vector<float> frequencies;
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    const double power = static_cast<double>(2 * i) / static_cast<double>(head_dim);
    double frequency = 1 / std::pow(theta, power) / slower;
    if (type == "llama3") frequency = Llama3(frequency, rules, reader);
    frequencies.push_back(static_cast<float>(frequency));
  }
  return frequencies;
}

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
    return Error(Errc::kUnsupported,
                 fmt::format("model_type {} cannot be trained: llama, qwen2 and qwen3 can", type))
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
  const double positions = reader.Number(json, "max_position_embeddings", 2048);
  if (positions > static_cast<double>(kMaxPositions))
    reader.Fail(Errc::kCorrupt, "max_position_embeddings",
                fmt::format("{} is over the limit of {}", positions, kMaxPositions));
  config.max_positions = static_cast<int64_t>(positions);
  config.rope_frequencies = Frequencies(json, shapes.head_dim, reader);
  config.head_norm = type == "qwen3";
  if (reader.error()) return *reader.error();
  return config;
}

}  // namespace nxdkit::trainer
