#include "formats/kinds/nxd/decide_nxd.h"
#include "formats/kinds/nxd/facts_nxd.h"
#include "formats/kinds/nxd/nxd_state.h"
#include "formats/kinds/nxd/read_nxd.h"
#include "formats/kinds/table.h"
#include "lib/base/errors.h"

namespace nxdkit::kinds {
namespace {

std::optional<int> NxdTp(const BoundArtifact& bound) { return NxdLayoutOf(bound)->geometry.tp; }

void TellHardware(const BoundArtifact& bound, InputHints& hints) {
  if (!hints.Has("hw-if-unknown"))
    hints.Set("hw-if-unknown",
              std::string(models::HardwareName(NxdLayoutOf(bound)->geometry.hardware)));
}

constexpr unsigned kBoth = kAsInput | kAsTarget;
constexpr std::string_view kOtherTag =
    "tag {value} is asked for, and this is {what}: only NxD roots and runs of other trainers have "
    "tags";
constexpr std::string_view kOtherLayout =
    "{origin} says how the ranks of an NxD set are laid out, and this is {what}";

constexpr OptionRow kRows[] = {
    {"tag", "TAG", "tag, save or iteration to read; by default the latest", kAsInput, kOtherTag},
    {"tp,tensor-parallel-size", "N", "tensor parallel size", kBoth, kOtherLayout},
    {"pp,pipeline-parallel-size", "N", "pipeline parallel size", kBoth, kOtherLayout},
    {"vpp,virtual-pipeline-parallel-size", "N", "virtual pipeline stages of each pipeline rank",
     kBoth, kOtherLayout},
    {"ep,expert-parallel-size", "N", "expert parallel size", kBoth, kOtherLayout},
    {"kv-multiplier", "N", "copies of each key/value head", kBoth, kOtherLayout},
    {"qkv", "separate|linear|fused|coalesced", "storage of the query, key and value weights", kBoth,
     kOtherLayout},
    {"hw", "trn1|trn2", "hardware of the set, which orders the copies of key/value heads", kBoth,
     kOtherLayout},
    {"style", "hf|nxdt|megatron|optimum", "naming scheme of the parameters", kBoth, kOtherLayout},
    {"xser", "", "write one file for each tensor instead of one for each rank", kAsTarget},
    {"layout-from",
     "FILE",
     "YAML configuration of NxD Training with defaults for the layout options",
     kAsSource | kAsTarget,
     {},
     ValueKind::kPath},
    {"instance", "NAME",
     "instance whose core memory must suffice: trn1.32xlarge, auto or a neuron-ls file", kAsTarget},
    {"nodes", "N", "with --instance: number of instances that train together", kAsTarget},
    {"seq,sequence-length", "N", "with --instance: sequence length of training", kAsTarget}};

Status CheckNxdOptions(const Arguments& given) {
  if (given.Has("instance")) return OkStatus();
  if (given.Has("nodes"))
    return BadUsage("--nodes says how many there are of --instance, which is missing");
  if (given.Has("seq"))
    return BadUsage("--seq of an NxD set is that of training for --instance, which is missing");
  return OkStatus();
}

}  // namespace

constinit const Kind kNxd = {
    .name = "nxd",
    .called = "an NxD set",
    .precedence = 2,
    .is_folder = IsNxdFolder,
    .open = OpenNxd,
    .bind = BindNxd,
    .options = kRows,
    .check_options = CheckNxdOptions,
    .state = StateForm::kNumbered,
    .bind_state = BindOptimizer,
    .is_adapter = nxd::LooksLikeShardSet,
    .holds_adapter = HoldsLora,
    .adapter_folders = LoraSetFolders,
    .bind_adapter = BindLoraSet,
    .tell = TellHardware,
    .tensor_parallel = NxdTp,
    .heads = NxdHeads,
    .check = CheckNxd,
    .name_checks = NameNxdChecks,
    .misplaced_by = MisplacedByConverter,
    .describe = DescribeNxd,
    .describe_layout = DescribeNxdLayout,
    .add_facts = AddNxdFacts,
    .decide = DecideNxd,
    .keeps_adapter = true,
};

}  // namespace nxdkit::kinds
