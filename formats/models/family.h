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
  kRouter,      // [experts, hidden], replicated
  kExpertGate,  // [expert intermediate, hidden], of each expert; see experts.h
  kExpertUp,    //
  kExpertDown,  // [hidden, expert intermediate]
  kReplicated,  // norms and the like
};

// Symbolic extents, evaluated with a config.
enum class Dim : uint8_t {
  kNone,
  kVocab,
  kHidden,
  kIntermediate,
  kQueryRows,
  kKeyRows,
  kHeadDim,
  kExperts,
  kExpertIntermediate,
};

// When a row of the table exists. A sparse layer is one with experts.
enum class When : uint8_t {
  kAlways,
  kUntied,
  kQkvBias,
  kOutputBias,
  kMlpBias,
  kSparseLayer,
  kDenseLayer,
};

struct ParamRow {
  // Hugging Face name; "{}" stands for the layer index, "{e}" for the expert's. Rows with an expert
  // that follow each other are repeated together, expert by expert.
  const char* name;
  Role role;
  Dim rows;
  Dim columns = Dim::kNone;  // kNone: a vector
  When when = When::kAlways;
};

// Constants of a rollout bundle that hold the number of their rank; a set of bits.
enum RankTensor : uint8_t {
  kModelRank = 1,      // rank_util.rank
  kAttentionRank = 2,  // layers.N.self_attn.rank_util.rank
  kExpertRank = 4,     // layers.N.mlp.expert_mlps.spmd_rank.rank
};

// What one of the programs that make rollout bundles does with a family.
struct RolloutTraits {
  uint8_t ranks = kModelRank | kAttentionRank;
  bool ties = true;          // knows models whose lm_head is the embedding
  bool dense_layers = true;  // knows layers without experts beside those with some
};

// The keys of config.json about experts; nullptr: the family has none.
struct ExpertKeys {
  const char* count = nullptr;
  const char* intermediate = nullptr;
  bool dense_layers = false;  // decoder_sparse_step and mlp_only_layers count
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
  // NxD's own module stores q, k and v as one weight_qkv when key heads are replicated.
  bool nxd_fuses_qkv = false;
  ExpertKeys experts = {};
  RolloutTraits optimum = {};
  RolloutTraits nxdi = {};
};

// All families known to this build.
std::span<const Family* const> Families();

}  // namespace nxdkit::models
