// A model family: a text (families/*.family, FAMILIES.md) that says which parameters a model of
// it has, by the keys of its config.json, how tensor parallelism cuts them, and what the programs
// that train and serve it call them. A text is read at run time and is not trusted.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::models {

// Constants of a rollout bundle that hold the number of their rank; a set of bits.
enum RankTensor : uint8_t {
  kModelRank = 1,      // rank_util.rank
  kAttentionRank = 2,  // layers.N.self_attn.rank_util.rank
  kExpertRank = 4,     // layers.N.mlp.expert_mlps.spmd_rank.rank
};

// What one of the programs that make rollout bundles makes of a family.
struct RolloutTraits {
  bool known = false;
  uint8_t ranks = 0;         // RankTensor
  bool ties = true;          // knows models whose lm_head is the embedding
  bool dense_layers = true;  // knows layers without experts beside those with some
};

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

// What is known of the family where training is concerned.
struct TrainingTraits {
  bool pipelines = false;       // how its layers are cut into pipeline stages
  bool optimizer = false;       // how its trainers number the optimizer's parameters
  bool optimum = false;         // optimum-neuron's trainer has a module for it
  bool fuses_qkv = false;       // NxD's module stores one weight_qkv when key heads are replicated
  bool stores_aliases = false;  // no converter leaves them out of training sets, so we do not
  // transformers' tensor parallelism cuts q, k, v, gate, up, the embedding and the head in rows.
  bool tp_rows = false;
};

struct Table;  // table.h

struct Family {
  std::string model_type;    // its name, which is config.json "model_type" unless `types` differ
  std::string architecture;  // the first that it matches
  std::vector<std::string> types;
  std::vector<std::string> architectures;
  std::string origin;  // the file; "" of one that is in the program
  std::string digest;  // sha256 of the text, in hex

  TrainingTraits training;
  RolloutTraits optimum;
  RolloutTraits nxdi;
  bool optimum_fuses_qkv = false;  // optimum-neuron's default for rollout bundles
  OptimumSampling optimum_sampling = OptimumSampling::kOnDevice;
  TitanRope titan = TitanRope::kNone;
  bool splits_qkv =
      false;  // q, k and v are parameters of their own, with several ways to store them

  std::shared_ptr<const Table> table;

  bool has_bundles() const { return optimum.known || nxdi.known; }
};

inline constexpr size_t kMaxFamilyBytes = 1 << 20;

// kCorrupt with the file, line and column of what is wrong. `origin` as in Family.
Result<Family> ParseFamily(std::string_view text, const std::string& origin);

// A family by the head of its text alone: names, types and architectures.
struct FamilyHead {
  std::string name;
  std::vector<std::string> examples;  // models of the hub
  std::vector<std::string> types;
  std::vector<std::string> architectures;
};

// Those that are in the program, by name.
std::vector<FamilyHead> BuiltInFamilies();
// The text of one of them; "" when there is none of this name.
std::string_view BuiltInFamilyText(std::string_view name);

// The family of a config: that of `file`, whatever it matches; else (file "") the first of
// NXDKIT_FAMILIES, a folder of *.family, or of those in the program whose types or architectures
// have it. nullptr when there is none; an error when a file of the user's is none or is unreadable.
Result<std::shared_ptr<const Family>> FindFamily(const std::string& model_type,
                                                 const std::string& architecture,
                                                 const std::string& file);

}  // namespace nxdkit::models
