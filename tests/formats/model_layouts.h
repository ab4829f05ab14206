// Whole layouts of a model, for tests: every rank of an NxD set or a rollout bundle.
// PRIVATE header: it pulls in nlohmann/json.hpp; include it from .cc files only.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/models/model.h"
#include "formats/nxd/nxd_layout.h"
#include "formats/rollout/rollout_layout.h"

namespace nxdkit::testing_util {

inline models::Model ModelOf(const nlohmann::json& config) {
  auto parsed = models::ParseConfig(config.dump(), "config.json");
  EXPECT_TRUE(parsed.ok()) << parsed.error().ToString();
  auto model = models::MakeModel(*parsed);
  EXPECT_TRUE(model.ok()) << model.error().ToString();
  return *std::move(model);
}

// A small model of 8 query and 4 key heads; keys of `changes` replace its own.
inline nlohmann::json SmallConfig(const nlohmann::json& changes = nullptr) {
  nlohmann::json config = {{"model_type", "llama"},
                           {"hidden_size", 16},
                           {"intermediate_size", 24},
                           {"num_hidden_layers", 2},
                           {"num_attention_heads", 8},
                           {"num_key_value_heads", 4},
                           {"head_dim", 2},
                           {"vocab_size", 24},
                           {"torch_dtype", "bfloat16"},
                           {"tie_word_embeddings", false}};
  if (!changes.is_null()) config.update(changes);
  return config;
}

// A small model with 4 experts in each layer.
inline nlohmann::json SmallMoeConfig(const char* family, const nlohmann::json& changes = nullptr) {
  nlohmann::json config = SmallConfig({{"model_type", family},
                                       {"num_local_experts", 4},
                                       {"num_experts", 4},
                                       {"moe_intermediate_size", 8}});
  if (!changes.is_null()) config.update(changes);
  return config;
}

inline Layout NxdLayout(const models::Model& model, const nxd::Geometry& geometry,
                        bool tied_head = false) {
  Layout layout;
  for (int rank = 0; rank < geometry.tp * geometry.ep; ++rank) {
    const int t = rank / geometry.ep;
    const int e = rank % geometry.ep;
    const std::optional<int> ep = geometry.ep > 1 ? std::optional<int>(e) : std::nullopt;
    const auto tensors = nxd::RankTensors(model, geometry, t, tied_head, e);
    EXPECT_TRUE(tensors.ok()) << tensors.error().ToString();
    if (!tensors.ok()) return layout;
    for (int p = 0; p < geometry.pp; ++p) {
      const auto file = static_cast<uint32_t>(layout.files.size());
      layout.files.push_back({nxd::ShardFileName(t, p, ep), t, p});
      for (const nxd::RankTensor& tensor : *tensors) {
        if (!nxd::OnPipelineRank(tensor, model.config.layers, geometry, p)) continue;
        layout.tensors.push_back(tensor.layout);
        layout.tensors.back().file = file;
      }
    }
  }
  return layout;
}

inline Layout RolloutLayout(const models::Model& model, const rollout::Geometry& geometry) {
  Layout layout;
  for (int rank = 0; rank < geometry.tp; ++rank) {
    auto tensors = rollout::RankTensors(model, geometry, rank);
    EXPECT_TRUE(tensors.ok()) << tensors.error().ToString();
    if (!tensors.ok()) return layout;
    layout.files.push_back({rollout::ShardFileName(rank), rank, -1});
    for (TensorLayout& tensor : *tensors) {
      tensor.file = static_cast<uint32_t>(rank);
      layout.tensors.push_back(std::move(tensor));
    }
  }
  return layout;
}

}  // namespace nxdkit::testing_util
