// PRIVATE to tests. Random models and layouts that can hold them, for property tests.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <rapidcheck/gtest.h>  // needs declarations of gtest.h

#include <numeric>
#include <string>
#include <vector>

#include "tests/formats/model_layouts.h"

namespace nxdkit::testing_util {

struct RandomCase {
  nlohmann::json config;
  nxd::Geometry nxd;
  rollout::Geometry rollout;
  bool tied_head = false;  // the NxD set stores lm_head of a tied model, too
  Dtype dtype = Dtype::kBF16;
};

inline void showValue(const RandomCase& c, std::ostream& out) {
  out << c.config.dump()
      << fmt::format(
             "\nnxd: tp {} pp {} vpp {} ep {} m {} qkv {} trn{} {} gate_up {} tied_head {} {}",
             c.nxd.tp, c.nxd.pp, c.nxd.vpp, c.nxd.ep, c.nxd.kv_multiplier,
             nxd::QkvStyleName(c.nxd.qkv), c.nxd.hardware == models::Hardware::kTrn1 ? 1 : 2,
             nxd::NameStyleName(c.nxd.names), c.nxd.fused_gate_up, c.tied_head, Name(c.dtype))
      << fmt::format("\nrollout: {} tp {} fused {} vocab {} transposed {} {} {} expert ranks {}",
                     rollout::FlavorName(c.rollout.flavor), c.rollout.tp, c.rollout.fused_qkv,
                     c.rollout.vocab_parallel, c.rollout.transposed_qkv,
                     c.rollout.transposed_output, c.rollout.transposed_mlp, c.rollout.expert_ranks);
}

inline int Number(int least, int most) { return *rc::gen::inRange(least, most + 1); }
inline bool Coin() { return *rc::gen::arbitrary<bool>(); }

inline int DivisorOf(int64_t number) {
  std::vector<int> divisors;
  for (int i = 1; i <= number; ++i)
    if (number % i == 0) divisors.push_back(i);
  return *rc::gen::elementOf(divisors);
}

// Experts, and everything cut evenly by both sides: such models are not padded.
inline void AddExperts(RandomCase& c) {
  const bool mixtral = Coin();
  c.config["model_type"] = mixtral ? "mixtral" : "qwen3_moe";
  const int64_t unit = std::lcm(c.nxd.tp, c.rollout.tp);
  c.nxd.ep = Number(1, 3);
  const int experts = c.nxd.ep * Number(1, 3);
  c.config["num_local_experts"] = experts;
  c.config["num_experts"] = experts;
  c.config["hidden_size"] = c.rollout.tp * Number(1, 2);
  c.config["vocab_size"] = unit * Number(1, 2);
  c.config["intermediate_size"] = unit * Number(1, 2);
  c.config["moe_intermediate_size"] = unit * Number(1, 2);
  c.rollout.transposed_mlp = false;
  if (mixtral || c.rollout.flavor == rollout::Flavor::kNxdi)
    c.config["tie_word_embeddings"] = false;
  if (c.rollout.flavor == rollout::Flavor::kOptimum) {
    c.config["mlp_only_layers"] = std::vector<int>(Coin() ? 1 : 0, 0);
    c.config["decoder_sparse_step"] = Number(1, 2);
  }
  if (Coin() && c.nxd.names == nxd::NameStyle::kHf) c.nxd.names = nxd::NameStyle::kNxdt;
}

// Layouts that NxD supports: m divides the group of a key head, tp divides its copies.
inline RandomCase AnyCase() {
  RandomCase c;
  const int kv = Number(1, 5);
  const int group = Number(1, 6);
  c.nxd.kv_multiplier = DivisorOf(group);
  c.nxd.tp = DivisorOf(int64_t{kv} * c.nxd.kv_multiplier);
  c.nxd.pp = Number(1, 3);
  c.nxd.vpp = Number(1, 2);
  c.nxd.hardware = Coin() ? models::Hardware::kTrn1 : models::Hardware::kTrn2;
  c.nxd.fused_gate_up = Coin();
  std::vector<nxd::QkvStyle> styles = {nxd::QkvStyle::kLinear, nxd::QkvStyle::kFused};
  if (c.nxd.kv_multiplier == 1) {
    styles.push_back(nxd::QkvStyle::kSeparate);
    if (group == 1) styles.push_back(nxd::QkvStyle::kCoalesced);
    if (Coin()) c.nxd.names = nxd::NameStyle::kMegatron;
  }
  c.nxd.qkv = *rc::gen::elementOf(styles);
  c.rollout.tp = Number(1, 9);
  c.rollout.fused_qkv = Coin();
  c.rollout.vocab_parallel = Coin();
  c.rollout.transposed_qkv = c.rollout.fused_qkv && Coin();
  c.rollout.transposed_output = Coin();
  c.rollout.transposed_mlp = Coin();
  c.config = {
      {"model_type", *rc::gen::element<std::string>("llama", "qwen2", "qwen3")},
      {"hidden_size", Number(1, 9)},
      {"intermediate_size", c.nxd.tp * Number(1, 5)},
      {"num_hidden_layers", c.nxd.pp * c.nxd.vpp + Number(0, 3)},
      {"num_attention_heads", kv * group},
      {"num_key_value_heads", kv},
      {"head_dim", Number(1, 4)},
      {"vocab_size", c.nxd.tp * Number(1, 5)},
      {"tie_word_embeddings", Coin()},
      {"attention_bias", Coin()},
      {"mlp_bias", Coin()},
  };
  c.rollout.flavor = Coin() ? rollout::Flavor::kNxdi : rollout::Flavor::kOptimum;
  c.rollout.expert_ranks = Coin();
  if (Coin()) AddExperts(c);
  c.tied_head = Coin();
  c.dtype = Coin() ? Dtype::kBF16 : Dtype::kF32;
  return c;
}

// Families that training sets support and bundles do not.
inline RandomCase AnyTrainingCase() {
  RandomCase c;
  c.nxd.tp = Number(1, 4);
  const bool bert = Coin();
  c.nxd.pp = bert ? 1 : Number(1, 3);
  c.config = {
      {"model_type", bert ? "bert" : "gpt_neox"},
      {"architectures", {bert ? "BertForPreTraining" : "GPTNeoXForCausalLM"}},
      {"hidden_size", Number(1, 9)},
      {"intermediate_size", c.nxd.tp * Number(1, 5)},
      {"num_hidden_layers", c.nxd.pp + Number(0, 2)},
      {"num_attention_heads", c.nxd.tp * Number(1, 3)},
      {"head_dim", Number(1, 4)},
      {"vocab_size", c.nxd.tp * Number(1, 5)},
      {"max_position_embeddings", Number(1, 5)},
      {"type_vocab_size", Number(1, 2)},
      {"tie_word_embeddings", Coin()},
      {"attention_bias", Coin()},
  };
  c.tied_head = Coin();
  return c;
}

}  // namespace nxdkit::testing_util
