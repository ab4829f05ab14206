// A model family as a parameter table. Adding a family is one file in families/ that defines
// `const Family family_<file name>`; CMake collects them.
#pragma once

#include <cstdint>
#include <span>

namespace nxdkit::models {

// What a parameter is to the formats: how it is sharded, fused and replicated follows from this.
// A bias has the role of its weight; its rank tells them apart.
enum class Role : uint8_t {
  kEmbedding,   // [vocab, hidden]
  kLmHead,      // [vocab, hidden]
  kFinalNorm,   // [hidden], last pipeline stage
  kQuery,       // [heads * head_dim, hidden], column parallel
  kKey,         // [kv_heads * head_dim, hidden], column parallel
  kValue,       //
  kOutput,      // [hidden, heads * head_dim], row parallel; its bias is replicated
  kQueryNorm,   // [head_dim], replicated
  kKeyNorm,     //
  kGate,        // [intermediate, hidden], column parallel
  kUp,          //
  kDown,        // [hidden, intermediate], row parallel; its bias is replicated
  kReplicated,  // norms and the like
};

// Symbolic extents, evaluated with a config.
enum class Dim : uint8_t { kNone, kVocab, kHidden, kIntermediate, kQueryRows, kKeyRows, kHeadDim };

// When a row of the table exists.
enum class When : uint8_t { kAlways, kUntied, kQkvBias, kOutputBias, kMlpBias };

struct ParamRow {
  const char* name;  // Hugging Face name; "{}" stands for the layer index
  Role role;
  Dim rows;
  Dim columns = Dim::kNone;  // kNone: a vector
  When when = When::kAlways;
};

struct Family {
  const char* model_type;    // config.json "model_type"
  const char* architecture;  // config.json "architectures"[0]
  // Biases of q, k, v and of o: always, never, or as config.json "attention_bias" says.
  enum class Bias : uint8_t { kNever, kAlways, kConfig } qkv_bias, output_bias;
  bool mlp_bias_key;               // config.json "mlp_bias" counts
  bool optimum_fuses_qkv;          // optimum-neuron's default for rollout bundles
  std::span<const ParamRow> rows;  // in the order of the model's own state dict
  // Tensors of old checkpoints that are not parameters and may be dropped; "{}" as above.
  std::span<const char* const> ignorable;
};

// All families known to this build.
std::span<const Family* const> Families();

}  // namespace nxdkit::models
