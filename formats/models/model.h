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
  std::shared_ptr<const Family> family;  // nullptr: no table exists for this model
  std::string model_type;                // as in config.json, "" if absent
  std::string architecture;              // the first one listed, or ""
  // From the family's text; 0 where it has no such let.
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t vocab = 0;
  bool tied = false;   // the lm_head is the embedding
  int64_t labels = 0;  // labels of a score head that replaces the lm_head; 0: there is none
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  int64_t experts = 0;  // per sparse layer; 0: the family has none
  int64_t expert_intermediate = 0;
  std::vector<bool> sparse;                // by layer: experts instead of one MLP
  std::vector<Alias> aliases;              // of this model
  std::optional<Dtype> dtype;              // "dtype" or "torch_dtype"
  std::string quant_method;                // of the quantised weights: "fp8"; "": not quantised
  std::shared_ptr<const ConfigText> text;  // nullptr without a family

  bool IsSparse(int64_t layer) const;
};

// The units of one axis that tensor parallelism cuts, one run after another.
struct Segment {
  int64_t count = 0;
  int64_t unit = 1;  // rows, or columns, of each
  Unit of = Unit::kElement;
};

// The cut of some rows' parameters.
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
  int expert = -1;   // -1: not an expert's
  uint32_t cut = 0;  // in Model::cuts
  int axis = kWhole;

  // The dimension that tensor parallelism cuts, or kWhole.
  int CutDim() const { return axis; }
  // Whether fused parameters are stored at its place: the first role, of the first expert.
  bool Leads() const { return models::Leads(role) && expert <= 0; }
};

struct Model {
  ModelConfig config;
  std::vector<Param> params;
  std::vector<ParamCut> cuts;
  std::vector<std::string> carried;  // tensors other than parameters; "*" at the end for any

  // Index of the parameter with this name; nullopt when missing.
  std::optional<uint32_t> Find(std::string_view name) const;
  // The parameters as the plan engine sees them, with head information for messages.
  std::vector<LogicalTensor> Logical() const;
};

// Parses config.json (also NxDI's merged neuron_config.json, whose top level has the same keys).
// kCorrupt naming the key, found and expected. An unknown model_type is not an error: family is
// null. `family_file`: the text of the model's family; "": find it.
Result<ModelConfig> ParseConfig(std::string_view json_text, const std::string& path,
                                const std::string& family_file = "");

// ParseConfig for a model of this family.
Result<ModelConfig> ParseConfigAs(std::shared_ptr<const Family> family, std::string_view json_text,
                                  const std::string& path);

// The text of a config.json that ParseConfig accepted, with "dtype" and "torch_dtype", where
// present, set to `dtype`: a loader that is given "auto" uses them. Written as transformers writes
// it.
Result<std::string> WithDtype(std::string_view json_text, Dtype dtype);

// The text without the settings of quantised weights. Written as transformers writes it.
Result<std::string> WithoutQuantization(std::string_view json_text);

// The parameters of a config whose family is known; kUnsupported otherwise, naming the families.
// kCorrupt where the config lacks a key that the text requires, or its values make no sense in the
// text. Bounds: at most 10,000 layers, 65,536 heads and 4,096 experts, 2^18 experts in all layers,
// every extent at most 2^30, 10^6 parameters.
Result<Model> MakeModel(const ModelConfig& config);

// The layer of a parameter or module: the number after the part "layers"; -1 if there is none.
int64_t LayerOf(std::string_view name);

// Whether a tensor of this name may be left out, according to the family.
bool IsIgnorable(const Family& family, std::string_view name);

// Whether a tensor of this name is kept as it is, according to the family.
bool IsCarried(const Model& model, std::string_view name);

// The message for a config without a family: "no parameter table for model_type "foo"; 51 families
// have one".
std::string NoTableText(const ModelConfig& config);

}  // namespace nxdkit::models
