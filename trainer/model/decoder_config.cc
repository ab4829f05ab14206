#include "trainer/model/decoder_config.h"

#include <algorithm>

#include "lib/base/errors.h"
#include "trainer/base/characters.h"
#include "trainer/model/config_reader.h"
#include "trainer/model/rope_config.h"

namespace nxdkit::trainer {
namespace {

constexpr int64_t kMaxPositions = int64_t{1} << 24;

// Keys read by formats/models or by this folder.
constexpr std::string_view kRead =
    "architectures attention_bias attention_dropout classifier_dropout dtype head_dim hidden_act "
    "hidden_size id2label intermediate_size is_causal layer_types max_position_embeddings "
    "max_window_layers mlp_bias model_type num_attention_heads num_hidden_layers "
    "num_key_value_heads num_labels original_max_position_embeddings partial_rotary_factor "
    "rms_norm_eps rope_parameters rope_scaling rope_theta sliding_window tie_word_embeddings "
    "torch_dtype use_sliding_window vocab_size";

// Keys of PreTrainedConfig and the three families in transformers 4 and 5 that do not change the
// distribution of a causal model called with token ids.
constexpr std::string_view kHarmless =
    "add_cross_attention auto_map bad_words_ids begin_suppress_tokens bos_token_id "
    "chunk_size_feed_forward cross_attention_hidden_size decoder_start_token_id "
    "diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size eos_token_id "
    "exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id "
    "initializer_range is_decoder is_encoder_decoder label2id length_penalty max_length "
    "min_length no_repeat_ngram_size num_beam_groups num_beams num_return_sequences "
    "output_attentions output_hidden_states output_scores pad_token_id prefix pretraining_tp "
    "problem_type pruned_heads remove_invalid_values repetition_penalty return_dict "
    "return_dict_in_generate sep_token_id suppress_tokens task_specific_params temperature "
    "tf_legacy_loss tie_encoder_decoder tokenizer_class top_k top_p torchscript "
    "transformers_version typical_p use_bfloat16 use_cache";

// Keys of NxDI's merged neuron_config.json; formats/rollout reads its own settings.
constexpr std::string_view kNeuron =
    "fused_spec_config metadata neuron_config num_cores_per_group o_bias qkv_bias";

// One name for each layer; nullptr if there are none.
const Json* LayerTypes(ConfigReader& reader, size_t layers) {
  const Json* types = JsonFind(reader.json(), "layer_types");
  if (!types || (types->is_array() && types->size() == layers)) return types;
  reader.Fail(Errc::kCorrupt, "layer_types",
              fmt::format("found {}, expected an array of {} names", JsonExcerpt(*types), layers));
  return nullptr;
}

// A llama has no windows: a size is unused, and no layer type may ask for one.
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

// The number of tokens that a token sees in every layer; 0: all. Only qwen's models have windows: a
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
                  fmt::format("layer {} slides, but no sliding_window is in use", l));
    windows[l] = slides ? window : 0;
  }
  return windows;
}

bool IsKnown(std::string_view key) {
  const auto has = [&](std::string_view words) {
    const std::vector<std::string_view> names = Split(words, ' ');
    return std::ranges::find(names, key) != names.end();
  };
  return key.starts_with("_") || key.starts_with("unsloth_") || has(kRead) || has(kHarmless) ||
         has(kNeuron);
}

bool IsOff(const Json& value) {
  return value.is_null() || value == false ||
         ((value.is_array() || value.is_object()) && value.empty());
}

// An unknown key may change the arithmetic, like those of newer models: kUnsupported, naming it,
// unless its value turns the feature off (null, false, empty).
void RefuseUnknownKeys(ConfigReader& reader) {
  for (const auto& [key, value] : reader.json().items())
    if (!IsKnown(key) && !IsOff(value))
      reader.Fail(Errc::kUnsupported, key.c_str(),
                  fmt::format("this trainer does not know the effect of {}: if it has none, "
                              "remove the key from config.json",
                              JsonExcerpt(value)));
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
  // formats/models takes a null here for a missing key; transformers takes it for false.
  for (const char* flag : {"attention_bias", "mlp_bias", "tie_word_embeddings"})
    reader.Flag(json, flag, false);
  // If it is false or null, transformers makes a model that sees later tokens.
  reader.Require("is_causal", {true});
  if (shapes.labels > 0) reader.Require("classifier_dropout", {0, 0.0, Json()});
  if (shapes.labels > 1)
    reader.Fail(
        Errc::kUnsupported, "id2label",
        fmt::format("{} scores per token are not supported by this trainer: 1 is", shapes.labels));
  if (shapes.head_dim % 2 != 0)
    reader.Fail(Errc::kCorrupt, "head_dim",
                fmt::format("{} is odd: rotary embedding rotates pairs", shapes.head_dim));
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
