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
    {"tag", "TAG", "which tag of an NxD root; without it the newest finished one", kAsInput,
     kOtherTag},
    {"tp,tensor-parallel-size", "N", "tensor parallel size", kBoth, kOtherLayout},
    {"pp,pipeline-parallel-size", "N", "pipeline parallel size", kBoth, kOtherLayout},
    {"vpp,virtual-pipeline-parallel-size", "N", "virtual pipeline stages per pipeline rank", kBoth,
     kOtherLayout},
    {"ep,expert-parallel-size", "N", "expert parallel size", kBoth, kOtherLayout},
    {"kv-multiplier", "N", "how often each key/value head is stored", kBoth, kOtherLayout},
    {"qkv", "separate|linear|fused|coalesced", "how the query, key and value weights are stored",
     kBoth, kOtherLayout},
    {"hw", "trn1|trn2", "hardware, which decides the order of repeated key/value heads", kBoth,
     kOtherLayout},
    {"style", "hf|nxdt|megatron|optimum",
     "whose naming of the parameters; optimum: optimum-neuron's training checkpoint", kBoth,
     kOtherLayout},
    {"xser", "", "one file per tensor (xser), or all tensors of a rank in one file", kAsTarget},
    {"layout-from",
     "FILE",
     "take from a YAML configuration of NxD Training what no option says",
     kAsSource | kAsTarget,
     {},
     ValueKind::kPath},
    {"instance", "NAME",
     "refuse what does not fit the memory of this instance: trn1.32xlarge, auto, a file of "
     "neuron-ls",
     kAsTarget},
    {"nodes", "N", "with --instance: how many of them train together", kAsTarget},
    {"seq,sequence-length", "N", "sequence length of training, with --instance", kAsTarget}};

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
