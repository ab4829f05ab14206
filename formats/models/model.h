// A model: a family's parameter table evaluated with a config.json. The common language of all
// layouts is the list of its parameters.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/models/family.h"
#include "lib/plan/layout.h"
#include "lib/tensor/dtype.h"

namespace nxdkit::models {

inline constexpr uint64_t kMaxConfigBytes = 16 << 20;  // of a config.json

struct ModelConfig {
  const Family* family = nullptr;  // nullptr: nobody wrote a table for this model
  std::string model_type;          // as config.json says, "" when it says nothing
  std::string architecture;        // the first one that it names, or ""
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;  // config "head_dim", else hidden / heads
  int64_t vocab = 0;
  bool tied = false;   // the lm_head is the embedding
  int64_t labels = 0;  // of a score head in the place of the lm_head; 0: there is none
  bool score_bias = false;
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  int64_t positions = 0;    // 0: no parameter depends on them
  int64_t token_types = 0;  // the same
  int64_t experts = 0;      // per sparse layer; 0: the family has none
  int64_t expert_intermediate = 0;
  int64_t sparse_step = 1;            // every sparse_step-th layer has experts, but for
  std::vector<int64_t> dense_layers;  // these, ascending
  std::optional<Dtype> dtype;         // "dtype" or "torch_dtype"
  std::string quant_method;           // how the weights are quantised: "fp8"; "": they are not

  bool IsSparse(int64_t layer) const;  // Whether the layer has experts instead of one MLP.
};

struct Param {
  std::string name;  // Hugging Face name
  Role role = Role::kReplicated;
  int layer = -1;  // -1: none
  Shape shape;
  int expert = -1;  // -1: of no expert

  // The dimension that tensor parallelism cuts, or kWhole.
  int CutDim() const;
  // Whether what is fused with it is stored in its place: the first role, of the first expert.
  bool Leads() const { return models::Leads(role) && expert <= 0; }
};

struct Model {
  ModelConfig config;
  std::vector<Param> params;

  // Index of the parameter with this name, in `layer` of the table's row; nullopt when missing.
  std::optional<uint32_t> Find(std::string_view name) const;
  // The parameters as the plan engine sees them, with head information for messages.
  std::vector<LogicalTensor> Logical() const;
};

// Parses config.json (also NxDI's merged neuron_config.json, whose top level holds the same keys).
// kCorrupt naming the key, found and expected. An unknown model_type is no error: family is null.
Result<ModelConfig> ParseConfig(std::string_view json_text, const std::string& path);

// The text of a config.json that ParseConfig took, with its "dtype" and "torch_dtype", where it has
// them, saying `dtype`: a loader that asks for "auto" goes by them. Written as transformers writes.
Result<std::string> WithDtype(std::string_view json_text, Dtype dtype);

// The text without what it says of quantised weights. Written as transformers writes.
Result<std::string> WithoutQuantization(std::string_view json_text);

// The parameters of a config whose family is known; kUnsupported otherwise, naming the families.
// Bounds: at most 10,000 layers, 65,536 heads and 4,096 experts, 2^18 experts in all layers, every
// extent at most 2^30.
Result<Model> MakeModel(const ModelConfig& config);

// The layer that a parameter or module is of: the number after the part "layers"; -1 when there is
// none.
int64_t LayerOf(std::string_view name);

// Whether the family says that a tensor of this name may be left out.
bool IsIgnorable(const Family& family, std::string_view name);

// The message for a config without a family: "no parameter table for model_type "foo"; there are
// tables for ...".
std::string NoTableText(const ModelConfig& config);

}  // namespace nxdkit::models
