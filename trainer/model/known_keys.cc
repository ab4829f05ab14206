#include "trainer/model/known_keys.h"

#include <array>
#include <string_view>

namespace nxdkit::trainer {
namespace {

// Read by formats/models or by this folder.
constexpr auto kRead = std::to_array<std::string_view>({"architectures",
                                                        "attention_bias",
                                                        "attention_dropout",
                                                        "classifier_dropout",
                                                        "dtype",
                                                        "head_dim",
                                                        "hidden_act",
                                                        "hidden_size",
                                                        "id2label",
                                                        "intermediate_size",
                                                        "is_causal",
                                                        "layer_types",
                                                        "max_position_embeddings",
                                                        "max_window_layers",
                                                        "mlp_bias",
                                                        "model_type",
                                                        "num_attention_heads",
                                                        "num_hidden_layers",
                                                        "num_key_value_heads",
                                                        "num_labels",
                                                        "original_max_position_embeddings",
                                                        "partial_rotary_factor",
                                                        "rms_norm_eps",
                                                        "rope_parameters",
                                                        "rope_scaling",
                                                        "rope_theta",
                                                        "sliding_window",
                                                        "tie_word_embeddings",
                                                        "torch_dtype",
                                                        "use_sliding_window",
                                                        "vocab_size"});

// Of transformers 4 and 5 (PreTrainedConfig and the three families): without effect on the
// distribution of a causal model that is called with token ids.
constexpr auto kHarmless = std::to_array<std::string_view>({"add_cross_attention",
                                                            "auto_map",
                                                            "bad_words_ids",
                                                            "begin_suppress_tokens",
                                                            "bos_token_id",
                                                            "chunk_size_feed_forward",
                                                            "cross_attention_hidden_size",
                                                            "decoder_start_token_id",
                                                            "diversity_penalty",
                                                            "do_sample",
                                                            "early_stopping",
                                                            "encoder_no_repeat_ngram_size",
                                                            "eos_token_id",
                                                            "exponential_decay_length_penalty",
                                                            "finetuning_task",
                                                            "forced_bos_token_id",
                                                            "forced_eos_token_id",
                                                            "initializer_range",
                                                            "is_decoder",
                                                            "is_encoder_decoder",
                                                            "label2id",
                                                            "length_penalty",
                                                            "max_length",
                                                            "min_length",
                                                            "no_repeat_ngram_size",
                                                            "num_beam_groups",
                                                            "num_beams",
                                                            "num_return_sequences",
                                                            "output_attentions",
                                                            "output_hidden_states",
                                                            "output_scores",
                                                            "pad_token_id",
                                                            "prefix",
                                                            "pretraining_tp",
                                                            "problem_type",
                                                            "pruned_heads",
                                                            "remove_invalid_values",
                                                            "repetition_penalty",
                                                            "return_dict",
                                                            "return_dict_in_generate",
                                                            "sep_token_id",
                                                            "suppress_tokens",
                                                            "task_specific_params",
                                                            "temperature",
                                                            "tf_legacy_loss",
                                                            "tie_encoder_decoder",
                                                            "tokenizer_class",
                                                            "top_k",
                                                            "top_p",
                                                            "torchscript",
                                                            "transformers_version",
                                                            "typical_p",
                                                            "use_bfloat16",
                                                            "use_cache"});

// Of NxDI's merged neuron_config.json, whose own settings formats/rollout reads.
constexpr auto kNeuron =
    std::to_array<std::string_view>({"fused_spec_config", "metadata", "neuron_config",
                                     "num_cores_per_group", "o_bias", "qkv_bias"});

bool IsKnown(std::string_view key) {
  const auto has = [&](const auto& names) { return std::ranges::find(names, key) != names.end(); };
  return key.starts_with("_") || key.starts_with("unsloth_") || has(kRead) || has(kHarmless) ||
         has(kNeuron);
}

bool IsOff(const Json& value) {
  return value.is_null() || value == false ||
         ((value.is_array() || value.is_object()) && value.empty());
}

}  // namespace

void RefuseUnknownKeys(ConfigReader& reader) {
  for (const auto& [key, value] : reader.json().items())
    if (!IsKnown(key) && !IsOff(value))
      reader.Fail(Errc::kUnsupported, key.c_str(),
                  fmt::format("this trainer does not know what {} changes: if nothing, take the "
                              "key out of config.json",
                              JsonExcerpt(value)));
}

}  // namespace nxdkit::trainer
