// A model family as a parameter table. Adding a family is one file in families/ that defines
// `const Family family_<file name>`; CMake collects them.
#pragma once

#include <cstdint>
#include <span>

#include "formats/models/role_table.h"

namespace nxdkit::models {

// Symbolic extents, evaluated with a config.
enum class Dim : uint8_t {
  kNone,
  kVocab,
  kHidden,
  kIntermediate,
  kQueryRows,
  kKeyRows,
  kHeadDim,
  kFusedHeadRows,  // heads * 3 * head_dim
  kExperts,
  kExpertIntermediate,
  kPositions,
  kTokenTypes,
  kLabels,
  kTwo,
};

// When a row of the table exists. A sparse layer is one with experts.
enum class When : uint8_t {
  kAlways,
  kUntied,  // there is an lm_head, and it is a matrix of its own
  kScore,   // there is none, but a score for each label
  kScoreBias,
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

// A family in one of the programs that make rollout bundles.
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

// Another name that a module stores a parameter under. `tied`: only when the embeddings are tied.
struct Alias {
  const char* name;
  const char* of;
  bool tied = true;
};
inline constexpr Alias kTiedLmHead[] = {{"lm_head.weight", "model.embed_tokens.weight"}};

// Where optimum-neuron's exporter has a bundle of the family sample, when nobody says.
enum class OptimumSampling : uint8_t {
  kOnDevice,
  kNotAtTwoRanks,  // on the host with tp 2 and batches, where the device gives garbage
  kOnHost,
};

// The rows of a head of q and k that TorchTitan's rope turns together: they are stored so.
enum class TitanRope : uint8_t {
  kNone,    // TorchTitan has no model of the family
  kHalves,  // a row and the one half a head further, as transformers does
  kPairs,   // two neighbouring rows
};

struct Family {
  const char* model_type;    // config.json "model_type"
  const char* architecture;  // config.json "architectures"[0]
  // Biases of q, k, v and of o: always, never, or as config.json "attention_bias" says; without the
  // key there are none, or (kUnlessConfig) there are.
  enum class Bias : uint8_t { kNever, kAlways, kConfig, kUnlessConfig } qkv_bias, output_bias;
  bool mlp_bias_key;       // config.json "mlp_bias" counts
  int64_t head_dim = 0;    // without config.json "head_dim"; 0: hidden_size / num_attention_heads
  bool optimum_fuses_qkv;  // optimum-neuron's default for rollout bundles
  OptimumSampling optimum_sampling = OptimumSampling::kOnDevice;  // the same
  std::span<const ParamRow> rows;  // in the order of the model's own state dict
  // Tensors of old checkpoints that are not parameters and may be dropped; "{}" as above.
  std::span<const char* const> ignorable;
  // NxD's own module stores q, k and v as one weight_qkv when key heads are replicated.
  bool nxd_fuses_qkv = false;
  std::span<const Alias> aliases = kTiedLmHead;
  bool tied_by_default = false;     // without config.json "tie_word_embeddings"
  bool by_architecture = false;     // a config of another architecture is no model of this family
  bool nxd_stores_aliases = false;  // no converter leaves them out of training sets, so we do not
  bool nxd_pipelines = true;        // how its layers are cut into pipeline stages is known
  bool optimizer_known = true;      // how its trainers number the optimizer's parameters is known
  bool has_bundles = true;          // optimum-neuron or NxDI makes bundles of it that we know
  bool vllm_known = true;           // how vLLM holds its parameters is known
  bool optimum_trains = false;      // optimum-neuron's trainer has a module for it
  TitanRope titan = TitanRope::kNone;
  ExpertKeys experts = {};
  RolloutTraits optimum = {};
  RolloutTraits nxdi = {};
};

// Whether q, k and v are parameters of their own, with several ways to store them.
bool SplitsQkv(const Family& family);

std::span<const Family* const> Families();  // All families known to this build.

}  // namespace nxdkit::models
