// A model: a family's parameter table evaluated with a config.json. The common language of all
// layouts is the list of its parameters.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/models/family.h"
#include "formats/models/role_table.h"
#include "lib/plan/layout.h"
#include "lib/tensor/dtype.h"

namespace nxdkit::models {

inline constexpr uint64_t kMaxConfigBytes = 16 << 20;  // of a config.json

struct ConfigText;  // all of a config.json, for MakeModel

// Another name that a parameter is stored under.
struct Alias {
  std::string name;
  std::string of;
};

struct ModelConfig {
  std::shared_ptr<const Family> family;  // nullptr: nobody wrote a table for this model
  std::string model_type;                // as config.json says, "" when it says nothing
  std::string architecture;              // the first one that it names, or ""
  // What the family's text says of it; 0 where that says nothing.
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t vocab = 0;
  bool tied = false;   // the lm_head is the embedding
  int64_t labels = 0;  // of a score head in the place of the lm_head; 0: there is none
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  int64_t experts = 0;  // per sparse layer; 0: the family has none
  int64_t expert_intermediate = 0;
  std::vector<bool> sparse;                // by layer: it has experts instead of one MLP
  std::vector<Alias> aliases;              // of this model
  std::optional<Dtype> dtype;              // "dtype" or "torch_dtype"
  std::string quant_method;                // how the weights are quantised: "fp8"; "": they are not
  std::shared_ptr<const ConfigText> text;  // nullptr where there is no family

  bool IsSparse(int64_t layer) const;
};

// The units of one axis that tensor parallelism cuts, one run after the other.
struct Segment {
  int64_t count = 0;
  int64_t unit = 1;  // rows, or columns, of each
  Unit of = Unit::kElement;
};

// How the parameters of some rows are cut.
struct ParamCut {
  int axis = kWhole;
  bool vocab = false;
  bool share = false;
  std::vector<Segment> segments;  // none: equal parts
};

struct Param {
  std::string name;  // Hugging Face name
  Role role = Role::kReplicated;
  int layer = -1;  // -1: none
  Shape shape;
  int expert = -1;   // -1: of no expert
  uint32_t cut = 0;  // in Model::cuts
  int axis = kWhole;

  // The dimension that tensor parallelism cuts, or kWhole.
  int CutDim() const { return axis; }
  // Whether what is fused with it is stored in its place: the first role, of the first expert.
  bool Leads() const { return models::Leads(role) && expert <= 0; }
};

struct Model {
  ModelConfig config;
  std::vector<Param> params;
  std::vector<ParamCut> cuts;
  std::vector<std::string> carried;  // tensors beside the parameters; "*" at the end for any

  // Index of the parameter with this name; nullopt when missing.
  std::optional<uint32_t> Find(std::string_view name) const;
  // The parameters as the plan engine sees them, with head information for messages.
  std::vector<LogicalTensor> Logical() const;
};

// Parses config.json (also NxDI's merged neuron_config.json, whose top level holds the same keys).
// kCorrupt naming the key, found and expected. An unknown model_type is no error: family is null.
// `family_file`: the text of the model's family; "": it is looked for.
Result<ModelConfig> ParseConfig(std::string_view json_text, const std::string& path,
                                const std::string& family_file = "");

// The same for a model of this family.
Result<ModelConfig> ParseConfigAs(std::shared_ptr<const Family> family, std::string_view json_text,
                                  const std::string& path);

// The text of a config.json that ParseConfig took, with its "dtype" and "torch_dtype", where it has
// them, saying `dtype`: a loader that asks for "auto" goes by them. Written as transformers writes.
Result<std::string> WithDtype(std::string_view json_text, Dtype dtype);

// The text without what it says of quantised weights. Written as transformers writes.
Result<std::string> WithoutQuantization(std::string_view json_text);

// The parameters of a config whose family is known; kUnsupported otherwise, naming the families.
// kCorrupt where the config lacks what the text asks for, or the text makes no sense of it.
// Bounds: at most 10,000 layers, 65,536 heads and 4,096 experts, 2^18 experts in all layers, every
// extent at most 2^30, 10^6 parameters.
Result<Model> MakeModel(const ModelConfig& config);

// The layer that a parameter or module is of: the number after the part "layers"; -1 when there is
// none.
int64_t LayerOf(std::string_view name);

// Whether the family says that a tensor of this name may be left out.
bool IsIgnorable(const Family& family, std::string_view name);

// Whether the family says that a tensor of this name is kept as it is.
bool IsCarried(const Model& model, std::string_view name);

// The message for a config without a family: "no parameter table for model_type "foo"; 51 families
// have one".
std::string NoTableText(const ModelConfig& config);

}  // namespace nxdkit::models
