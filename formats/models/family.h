// A model family: a text (families/*.family, FAMILIES.md) that lists the parameters of its models,
// by the keys of config.json, how tensor parallelism cuts them, and their names in the programs
// that train and serve them. A text is read at run time and is not trusted.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::models {

// Constants of a rollout bundle that hold the rank's number; a bit set.
enum RankTensor : uint8_t {
  kModelRank = 1,      // rank_util.rank
  kAttentionRank = 2,  // layers.N.self_attn.rank_util.rank
  kExpertRank = 4,     // layers.N.mlp.expert_mlps.spmd_rank.rank
};

// How one of the programs that make rollout bundles treats a family.
struct RolloutTraits {
  bool known = false;
  uint8_t ranks = 0;         // RankTensor
  bool ties = true;          // knows models whose lm_head is the embedding
  bool dense_layers = true;  // knows models with both dense and expert layers
};

// Where optimum-neuron's exporter makes a bundle of the family sample by default.
enum class OptimumSampling : uint8_t {
  kOnDevice,
  kNotAtTwoRanks,  // on the host with tp 2 and batches, where the device samples garbage
  kOnHost,
};

// The rows of a head of q and k that TorchTitan's rope rotates together, which determines their
// storage.
enum class TitanRope : uint8_t {
  kNone,    // TorchTitan has no model of the family
  kHalves,  // a row and the one half a head further, as transformers does
  kPairs,   // two neighbouring rows
};

// Properties of the family in training.
struct TrainingTraits {
  bool pipelines = false;       // how its layers are cut into pipeline stages is known
  bool optimizer = false;       // its trainers' numbering of optimizer parameters is known
  bool optimum = false;         // optimum-neuron's trainer has a module for it
  bool fuses_qkv = false;       // NxD's module stores one weight_qkv when key heads are replicated
  bool stores_aliases = false;  // all converters keep them in training sets, so we do too
  // transformers' tensor parallelism cuts q, k, v, gate, up, the embedding and the head by rows.
  bool tp_rows = false;
};

struct Table;  // table.h

struct Family {
  std::string model_type;    // its name, and the config's "model_type" unless `types` differ
  std::string architecture;  // the first that matches
  std::vector<std::string> types;
  std::vector<std::string> architectures;
  std::string origin;  // the file; "" for a built-in one
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

// kCorrupt with the file, line and column of the fault. `origin` as in Family.
Result<Family> ParseFamily(std::string_view text, const std::string& origin);

// The head of a family's text: names, types and architectures.
struct FamilyHead {
  std::string name;
  std::vector<std::string> examples;  // models on the hub
  std::vector<std::string> types;
  std::vector<std::string> architectures;
};

// The built-in families, by name.
std::vector<FamilyHead> BuiltInFamilies();
// The text of a built-in family; "" if there is none of this name.
std::string_view BuiltInFamilyText(std::string_view name);

// The family of a config: that of `file`, whatever it matches; otherwise (file "") the first in
// NXDKIT_FAMILIES, a folder of *.family, or among the built-in ones, whose types or architectures
// match. nullptr when there is none; an error when a user's file is not a family or cannot be read.
Result<std::shared_ptr<const Family>> FindFamily(const std::string& model_type,
                                                 const std::string& architecture,
                                                 const std::string& file);

}  // namespace nxdkit::models
