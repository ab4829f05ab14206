#include "tools/conversions/layout_options.h"

#include <variant>

namespace nxdkit::tool {
namespace {

using IntField = std::optional<int> LayoutArgs::*;
using TextField = std::optional<std::string> LayoutArgs::*;
using BoolField = std::optional<bool> LayoutArgs::*;

struct LayoutRow {
  unsigned groups;
  const char* name;
  const char* alias;  // "" for none
  std::variant<IntField, TextField, BoolField> field;
  std::vector<std::string> choices;
  const char* value;
  Completes completes;
  const char* help;
};

constexpr unsigned kTensorParallel = kNxdLayout | kRolloutLayout;
constexpr Completes kNothing = Completes::kNothing;

const std::vector<LayoutRow>& LayoutRows() {
  static const std::vector<LayoutRow> kRows = {
      {kTensorParallel,
       "tp",
       "tensor-parallel-size",
       &LayoutArgs::tp,
       {},
       "N",
       kNothing,
       "tensor parallel size"},
      {kNxdLayout,
       "pp",
       "pipeline-parallel-size",
       &LayoutArgs::pp,
       {},
       "N",
       kNothing,
       "pipeline parallel size"},
      {kNxdLayout,
       "vpp",
       "virtual-pipeline-parallel-size",
       &LayoutArgs::vpp,
       {},
       "N",
       kNothing,
       "virtual pipeline stages per pipeline rank"},
      {kNxdLayout,
       "ep",
       "expert-parallel-size",
       &LayoutArgs::ep,
       {},
       "N",
       kNothing,
       "expert parallel size"},
      {kNxdLayout,
       "kv-multiplier",
       "",
       &LayoutArgs::kv_multiplier,
       {},
       "N",
       kNothing,
       "how often each key/value head is stored"},
      {kNxdLayout,
       "qkv",
       "",
       &LayoutArgs::qkv,
       {"separate", "linear", "fused", "coalesced"},
       "",
       kNothing,
       "how the query, key and value weights are stored"},
      {kNxdLayout,
       "hw",
       "",
       &LayoutArgs::hw,
       {"trn1", "trn2"},
       "",
       kNothing,
       "hardware, which decides the order of repeated key/value heads"},
      {kNxdLayout,
       "style",
       "",
       &LayoutArgs::style,
       {"hf", "nxdt", "megatron", "optimum"},
       "",
       kNothing,
       "whose naming of the parameters; optimum: optimum-neuron's training checkpoint"},
      {kOutputLayout | kXserLayout,
       "xser",
       "",
       &LayoutArgs::xser,
       {},
       "",
       kNothing,
       "one file per tensor (xser), or all tensors of a rank in one file"},
      {kNxdLayout,
       "tag",
       "",
       &LayoutArgs::tag,
       {},
       "TAG",
       kNothing,
       "which tag of an NxD root; without it the newest finished one"},
      {kNxdLayout,
       "config",
       "",
       &LayoutArgs::config,
       {},
       "FILE",
       Completes::kPath,
       "config.json of the model, where the input has none"},
      {kRolloutLayout,
       "flavor",
       "",
       &LayoutArgs::flavor,
       {"optimum", "nxdi"},
       "",
       kNothing,
       "kind of rollout bundle"},
      {kRolloutLayout,
       "bs",
       "batch-size",
       &LayoutArgs::bs,
       {},
       "N",
       kNothing,
       "batch size of the rollout engine"},
      {kRolloutLayout,
       "seq",
       "sequence-length",
       &LayoutArgs::seq,
       {},
       "N",
       kNothing,
       "sequence length of the rollout engine"},
      {kRolloutLayout,
       "fused-qkv",
       "",
       &LayoutArgs::fused_qkv,
       {},
       "",
       kNothing,
       "one Wqkv tensor, or q, k and v apart"},
      {kRolloutLayout,
       "bundle",
       "",
       &LayoutArgs::bundle,
       {},
       "DIR",
       Completes::kFolder,
       "compiled bundle to take the blob and neuron_config.json from"},
      {kLoraLayout,
       "merge-lora",
       "",
       &LayoutArgs::merge_lora,
       {},
       "ADAPTER",
       Completes::kPath,
       "add this LoRA adapter to the model: PEFT's folder, or an NxD set of its shards"},
      {kOutputLayout,
       "dtype",
       "",
       &LayoutArgs::dtype,
       {"keep", "bf16", "f16", "f32"},
       "",
       kNothing,
       "element type of the floating point weights"},
      {kOutputLayout,
       "max-shard-size",
       "",
       &LayoutArgs::max_shard_size,
       {},
       "SIZE",
       kNothing,
       "size of one HF weight file in decimal units, such as 5GB"},
  };
  return kRows;
}

}  // namespace

void AddLayoutOptions(OptionTable& table, LayoutArgs& args, unsigned groups,
                      std::string_view heading, std::string_view prefix) {
  table.Group(heading);
  for (const LayoutRow& row : LayoutRows()) {
    if ((row.groups & groups) == 0) continue;
    std::string names = std::string(prefix) + row.name;
    if (*row.alias != 0 && prefix.empty()) names += std::string(",") + row.alias;
    if (const IntField* field = std::get_if<IntField>(&row.field))
      table.Integer(names, row.value, &(args.**field), kPositive, row.help);
    else if (const BoolField* toggle = std::get_if<BoolField>(&row.field))
      table.Toggle(names, &(args.**toggle), row.help);
    else if (TextField text = std::get<TextField>(row.field); row.choices.empty())
      table.Text(names, row.value, &(args.*text), row.help).completes(row.completes);
    else
      table.Choice(names, row.choices, &(args.*text), row.help);
  }
}

}  // namespace nxdkit::tool
