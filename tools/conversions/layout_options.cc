#include "tools/conversions/layout_options.h"

#include <variant>
#include <vector>

namespace nxdkit::tool {
namespace {

using Field =
    std::variant<std::optional<int> LayoutArgs::*, std::optional<std::string> LayoutArgs::*,
                 std::optional<bool> LayoutArgs::*>;

struct LayoutRow {
  unsigned groups;
  unsigned sides;     // what it can describe (LayoutSide bits)
  const char* names;  // as OptionTable takes them: name and alias
  Field field;
  const char* value;  // "N"; or the choices, "trn1|trn2"
  const char* help;
  Completes completes = Completes::kNothing;
  unsigned instead = 0;  // groups with which another row has this option
};

using Args = LayoutArgs;
constexpr unsigned kNxdSides = kNxdInput | kNxdOutput;
constexpr unsigned kTpGroups = kNxdLayout | kRolloutLayout;
constexpr unsigned kTpSides = kNxdSides | kRolloutInput | kRolloutOutput;

const LayoutRow kRows[] = {
    {kTpGroups, kTpSides, "tp,tensor-parallel-size", &Args::tp, "N", "tensor parallel size"},
    {kNxdLayout, kNxdSides, "pp,pipeline-parallel-size", &Args::pp, "N", "pipeline parallel size"},
    {kNxdLayout, kNxdSides, "vpp,virtual-pipeline-parallel-size", &Args::vpp, "N",
     "virtual pipeline stages per pipeline rank"},
    {kNxdLayout, kNxdSides, "ep,expert-parallel-size", &Args::ep, "N", "expert parallel size"},
    {kNxdLayout, kNxdSides, "kv-multiplier", &Args::kv_multiplier, "N",
     "how often each key/value head is stored"},
    {kNxdLayout, kNxdSides, "qkv", &Args::qkv, "separate|linear|fused|coalesced",
     "how the query, key and value weights are stored"},
    {kNxdLayout, kNxdSides, "hw", &Args::hw, "trn1|trn2",
     "hardware, which decides the order of repeated key/value heads"},
    {kNxdLayout, kNxdSides | kDcpOutput, "style", &Args::style, "hf|nxdt|megatron|optimum",
     "whose naming of the parameters; optimum: optimum-neuron's training checkpoint",
     Completes::kNothing, kDcpLayout},
    {kDcpLayout, kNxdSides | kDcpOutput, "style", &Args::style,
     "hf|nxdt|megatron|optimum|hf-fused|torchtitan|torchtitan-2025",
     "whose naming of the parameters; optimum: optimum-neuron's training checkpoint; of a torch "
     "distributed checkpoint hf-fused (transformers 5), torchtitan, -2025 (before April 2026)"},
    {kOutputLayout | kXserLayout, kNxdOutput, "xser", &Args::xser, "",
     "one file per tensor (xser), or all tensors of a rank in one file"},
    {kNxdLayout, kNxdInput, "tag", &Args::tag, "TAG",
     "which tag of an NxD root; without it the newest finished one"},
    {kNxdLayout, kAnySide, "config", &Args::config, "FILE",
     "config.json of the model, where the input has none", Completes::kPath},
    {kHfLayout, kHfInput, "weights", &Args::weights, "FILE",
     "which weights of a Hugging Face folder with several sets: a file of it, or its index",
     Completes::kPath},
    {kRolloutLayout, kRolloutOutput, "flavor", &Args::flavor, "optimum|nxdi",
     "kind of rollout bundle"},
    {kRolloutLayout, kRolloutOutput, "bs,batch-size", &Args::bs, "N",
     "batch size of the rollout engine"},
    {kRolloutLayout | kNodesLayout, kRolloutOutput | kNxdOutput, "seq,sequence-length", &Args::seq,
     "N", "sequence length of the rollout engine; of training, with --instance"},
    {kRolloutLayout, kRolloutInput | kRolloutOutput, "fused-qkv", &Args::fused_qkv, "",
     "one Wqkv tensor, or q, k and v apart"},
    {kRolloutLayout, kRolloutOutput, "on-device-sampling", &Args::on_device_sampling, "",
     "whether the compiled graph samples, or gives logits"},
    {kRolloutLayout, kRolloutOutput, "optimum-version", &Args::optimum_version, "V",
     "version of optimum-neuron that is to load the bundle"},
    {kRolloutLayout, kRolloutOutput, "compiler-version", &Args::compiler_version, "V",
     "version of neuronx-cc beside it, with its +hash"},
    {kRolloutLayout, kRolloutOutput, "bundle", &Args::bundle, "DIR",
     "compiled bundle to take the blob and neuron_config.json from", Completes::kFolder},
    {kFromLayout, kNxdSides, "layout-from", &Args::layout_from, "FILE",
     "take from a YAML configuration of NxD Training what no option says", Completes::kPath},
    {kInstanceLayout, kNxdOutput | kRolloutOutput, "instance", &Args::instance, "NAME",
     "refuse what does not fit the memory of this instance, such as trn1.32xlarge"},
    {kNodesLayout, kNxdOutput, "nodes", &Args::nodes, "N",
     "with --instance: how many of them train together"},
    {kDcpLayout, kDcpOutput, "chunks", &Args::chunks, "N",
     "cut every tensor of a torch distributed checkpoint into N chunks of rows, in N files"},
    {kDcpLayout, kDcpOutput, "mesh", &Args::mesh, "dp=N,tp=N",
     "cut them as FSDP2 over tensor parallelism does, a file for each rank"},
    {kLoraLayout, kAnySide, "merge-lora", &Args::merge_lora, "ADAPTER",
     "add this LoRA adapter to the model: PEFT's folder, or an NxD set of its shards",
     Completes::kPath},
    {kOutputLayout | kDtypeLayout, kAnySide, "dtype", &Args::dtype, "keep|bf16|f16|f32|downcast",
     "element type of the floating point weights; downcast: F32 to BF16, F64 to F32"},
    {kOutputLayout, kHfOutput, "max-shard-size", &Args::max_shard_size, "SIZE",
     "size of one HF weight file in decimal units, such as 5GB"},
};

std::vector<std::string> ChoicesOf(const LayoutRow& row) {
  std::vector<std::string> choices;
  std::string_view rest = row.value;
  for (size_t bar; (bar = rest.find('|')) != std::string_view::npos; rest.remove_prefix(bar + 1))
    choices.emplace_back(rest.substr(0, bar));
  if (!choices.empty()) choices.emplace_back(rest);
  return choices;
}

std::string MainName(const LayoutRow& row) {
  const std::string names = row.names;
  return names.substr(0, names.find(','));
}

void AddRow(OptionTable& table, LayoutArgs& args, const LayoutRow& row, const std::string& names) {
  if (const auto* field = std::get_if<std::optional<int> LayoutArgs::*>(&row.field)) {
    table.Integer(names, row.value, &(args.**field), kPositive, row.help);
  } else if (const auto* toggle = std::get_if<std::optional<bool> LayoutArgs::*>(&row.field)) {
    table.Toggle(names, &(args.**toggle), row.help);
  } else {
    std::optional<std::string>* text =
        &(args.*std::get<std::optional<std::string> LayoutArgs::*>(row.field));
    if (const std::vector<std::string> choices = ChoicesOf(row); !choices.empty())
      table.Choice(names, choices, text, row.help);
    else
      table.Text(names, row.value, text, row.help).completes(row.completes);
  }
}

}  // namespace

void AddLayoutOptions(OptionTable& table, LayoutArgs& args, unsigned groups,
                      std::string_view heading, std::string_view prefix) {
  if ((groups & kHfLayout) != 0) args.weights_option = "--" + std::string(prefix) + "weights";
  table.Group(heading);
  for (const LayoutRow& row : kRows)
    if ((row.groups & groups) != 0 && (row.instead & groups) == 0)
      AddRow(table, args, row, prefix.empty() ? row.names : std::string(prefix) + MainName(row));
}

namespace {

bool IsGiven(const LayoutArgs& args, const LayoutRow& row) {
  return std::visit([&](const auto& field) { return (args.*field).has_value(); }, row.field);
}

}  // namespace

std::optional<std::string> OptionWithoutMeaning(const LayoutArgs& args, unsigned sides) {
  for (const LayoutRow& row : kRows)
    if (IsGiven(args, row) && (row.sides & (sides | kAnySide)) == 0) return "--" + MainName(row);
  return std::nullopt;
}

std::optional<std::string> FirstOption(const LayoutArgs& args) {
  for (const LayoutRow& row : kRows)
    if (IsGiven(args, row)) return "--" + MainName(row);
  return std::nullopt;
}

}  // namespace nxdkit::tool
