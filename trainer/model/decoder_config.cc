#include "trainer/model/decoder_config.h"

#include "lib/base/errors.h"
#include "trainer/model/config_reader.h"
#include "trainer/model/known_keys.h"
#include "trainer/model/rope_config.h"

namespace nxdkit::trainer {
namespace {

constexpr int64_t kMaxPositions = int64_t{1} << 24;

// One name for each layer; nullptr: none are given.
const Json* LayerTypes(ConfigReader& reader, size_t layers) {
  const Json* types = JsonFind(reader.json(), "layer_types");
  if (!types || (types->is_array() && types->size() == layers)) return types;
  reader.Fail(Errc::kCorrupt, "layer_types",
              fmt::format("found {}, expected an array of {} names", JsonExcerpt(*types), layers));
  return nullptr;
}

// A llama has no windows: a size is not used, and a layer that is called one of them has none.
void RequireFullAttention(ConfigReader& reader, size_t layers) {
  reader.NumberOrNull(reader.json(), "sliding_window", 1);
  const Json* types = LayerTypes(reader, layers);
  for (size_t l = 0; types && l < layers; ++l)
    if ((*types)[l] != "full_attention")
      return reader.NotBuilt("layer_types", JsonExcerpt((*types)[l]));
}

// The first layer with a window.
int64_t FirstWindow(ConfigReader& reader) {
  constexpr char kFirst[] = "max_window_layers";
  const auto first = reader.json().find(kFirst);
  if (first == reader.json().end()) return 28;
  if (first->is_number_integer()) return first->get<int64_t>();
  reader.Fail(Errc::kCorrupt, kFirst,
              fmt::format("found {}, expected an integer", JsonExcerpt(*first)));
  return 0;
}

// For every layer, of how many tokens a token sees; 0: all. Only qwen's models have windows: a
// llama with their keys sees everything.
std::vector<int64_t> ReadWindows(ConfigReader& reader, const models::ModelConfig& shapes) {
  std::vector<int64_t> windows(static_cast<size_t>(shapes.layers));
  if (shapes.model_type == "llama") {
    RequireFullAttention(reader, windows.size());
    return windows;
  }
  const bool used = reader.Flag(reader.json(), "use_sliding_window", false);
  const Json* size = JsonFind(reader.json(), "sliding_window");
  const bool none = !used || (reader.json().contains("sliding_window") && !size);
  const auto window = static_cast<int64_t>(none ? 0 : reader.Number("sliding_window", 4096));
  const Json* types = LayerTypes(reader, windows.size());
  const int64_t from = FirstWindow(reader);
  for (size_t l = 0; l < windows.size(); ++l) {
    const Json type = types ? (*types)[l] : Json();
    const bool slides =
        types ? type == "sliding_attention" : window > 0 && static_cast<int64_t>(l) >= from;
    if (types && !slides && type != "full_attention")
      reader.NotBuilt("layer_types", JsonExcerpt(type));
    if (slides && window == 0)
      reader.Fail(Errc::kCorrupt, "layer_types",
                  fmt::format("layer {} slides, and there is no sliding_window in use", l));
    windows[l] = slides ? window : 0;
  }
  return windows;
}

}  // namespace

Result<DecoderConfig> ParseDecoderConfig(std::string_view json_text, const std::string& path) {
  DecoderConfig config;
  NXDKIT_ASSIGN(const models::ModelConfig shapes, models::ParseConfig(json_text, path));
  NXDKIT_ASSIGN(config.model, models::MakeModel(shapes).in(path));
  NXDKIT_ASSIGN(const Json json, ParseJson(json_text, kLikePython));
  const std::string& type = shapes.model_type;
  if (type != "llama" && type != "qwen2" && type != "qwen3")
    return Unsupported("model_type {} cannot be trained: llama, qwen2 and qwen3 can", type)
        .in(path)
        .member("model_type");
  ConfigReader reader(json, path);
  reader.Require("hidden_act", {"silu"});
  reader.Require("attention_dropout", {0, 0.0});
  // Read by formats/models, where a null is as if it were not there; for transformers it is none.
  for (const char* flag : {"attention_bias", "mlp_bias", "tie_word_embeddings"})
    reader.Flag(json, flag, false);
  // Where it is not true, or is null, transformers makes a model that sees what follows.
  reader.Require("is_causal", {true});
  if (shapes.labels > 0) reader.Require("classifier_dropout", {0, 0.0, Json()});
  if (shapes.labels > 1)
    reader.Fail(Errc::kUnsupported, "id2label",
                fmt::format("{} scores of each token are not built into this trainer: 1 is",
                            shapes.labels));
  if (shapes.head_dim % 2 != 0)
    reader.Fail(Errc::kCorrupt, "head_dim",
                fmt::format("{} is odd: rotary embedding turns pairs", shapes.head_dim));
  config.rms_eps = static_cast<float>(reader.Number("rms_norm_eps", 1e-6));
  const double positions = reader.Number("max_position_embeddings", type == "llama" ? 2048 : 32768);
  if (positions > static_cast<double>(kMaxPositions))
    reader.Fail(Errc::kCorrupt, "max_position_embeddings",
                fmt::format("{} is over the limit of {}", positions, kMaxPositions));
  config.max_positions = static_cast<int64_t>(positions);
  config.rope = ReadRope(reader, shapes.head_dim, config.max_positions);
  config.windows = ReadWindows(reader, shapes);
  RefuseUnknownKeys(reader);
  if (reader.error()) return *reader.error();
  return config;
}

}  // namespace nxdkit::trainer
