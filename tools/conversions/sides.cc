#include "tools/conversions/sides.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/kinds/table.h"
#include "formats/nxd/nxdt_config.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"
#include "lib/system/process.h"
#include "lib/system/signals.h"

namespace nxdkit::tool {
namespace {

using artifact::Arguments;
using kinds::Kind;

// The row of this name that describes the conversion's output or, failing that, its input; nullptr:
// neither has one. The base of a kind that reads one may be of any kind.
const kinds::OptionRow* RowOf(std::string_view name, const Kind& from, const Kind& to) {
  if (const kinds::OptionRow* row = FindRow(to.options, name, kinds::kAsTarget)) return row;
  if (const kinds::OptionRow* row = FindRow(from.options, name, kinds::kAsSource)) return row;
  if (from.reads_base)
    for (const Kind* kind : kinds::Kinds())
      if (const kinds::OptionRow* row = FindRow(kind->options, name, kinds::kAsRead)) return row;
  return FindRow(kinds::CommonRows(), name, ~0u);
}

// A word that the same option of another kind takes.
Status CheckWord(const kinds::OptionRow& row, const std::string& word, const Kind& to) {
  const std::vector<std::string> choices = row.choices();
  if (choices.empty() || std::ranges::find(choices, word) != choices.end()) return OkStatus();
  for (const Kind* kind : kinds::Kinds())
    for (const kinds::OptionRow& other : kind->options) {
      const std::vector<std::string> words = other.choices();
      if (other.name() == row.name() && std::ranges::find(words, word) != words.end())
        return BadUsage("--{} {} names the parameters of {}, the output is {}", row.name(), word,
                        kind->called, to.name);
    }
  return OkStatus();
}

Status CheckMeaning(const Arguments& given, const Kind& from, const Kind& to) {
  Arguments rest = given;
  for (const auto& [name, value] : given.values())
    if (RowOf(name, from, to)) rest.Reset(name);
  if (const std::optional<std::string> option = FirstOption(rest))
    return BadUsage("{} does not apply to a conversion from {} to {}", *option, from.name, to.name);
  for (const auto& [name, value] : given.values())
    if (const std::string* word = std::any_cast<std::string>(&value))
      NXDKIT_TRY(CheckWord(*RowOf(name, from, to), *word, to));
  return to.check_options ? to.check_options(given) : OkStatus();
}

// Gives each option to the side that it describes.
void Distribute(const Arguments& given, const Kind& to, Sides& sides) {
  for (const auto& [name, value] : given.values()) {
    if (FindRow(kinds::CommonRows(), name, ~0u)) continue;
    const bool of_output = FindRow(to.options, name, kinds::kAsTarget) != nullptr;
    Arguments& side = of_output ? static_cast<Arguments&>(sides.output) : sides.input;
    side.SetAny(name, value);
  }
}

template <typename T>
void SetUnlessSaid(Arguments& said, std::string_view name, const std::optional<T>& value) {
  if (value && !said.Has(name)) said.Set(name, *value);
}

// What the options say, and below them the file. Where the output has no such layout it describes
// the input.
void TakeLayout(const nxd::NxdtConfig& config, const Kind& to, Arguments& said) {
  const nxd::LayoutOptions& layout = config.layout;
  if (!to.refreshes) SetUnlessSaid(said, "tp", layout.tp);  // there it is the engine's
  SetUnlessSaid(said, "pp", layout.pp);
  SetUnlessSaid(said, "vpp", layout.vpp);
  SetUnlessSaid(said, "ep", layout.ep);
  SetUnlessSaid(said, "kv-multiplier", layout.kv_multiplier);
  const auto text = [](std::string_view name) { return std::optional(std::string(name)); };
  SetUnlessSaid(said, "qkv", text(nxd::QkvStyleName(*layout.qkv)));
  SetUnlessSaid(said, "hw", text(models::HardwareName(*layout.hardware)));
  if (layout.names) SetUnlessSaid(said, "style", text(nxd::NameStyleName(*layout.names)));
  if (FindRow(to.options, "xser", kinds::kAsTarget)) SetUnlessSaid(said, "xser", config.xser);
}

// Its config.json, as it is named there or beside the file itself.
Result<std::optional<std::string>> ModelConfigOf(const nxd::NxdtConfig& config,
                                                 const std::string& path) {
  if (config.model_config.empty()) return std::optional<std::string>();
  for (const std::string& place :
       {config.model_config, JoinPath(ParentPath(path), config.model_config)}) {
    NXDKIT_ASSIGN(const bool there, IsFile(place));
    if (there) return std::optional(place);
  }
  return std::optional<std::string>();
}

// The layout that the file gave, so that the user sees whether it was the right file.
std::string TakenText(const nxd::NxdtConfig& config, const std::string& path,
                      const std::optional<std::string>& model_config) {
  const nxd::LayoutOptions& layout = config.layout;
  std::string text =
      fmt::format("layout from {}: tp {}, pp {}, vpp {}, ep {}, kv multiplier {}, q/k/v {}, {}",
                  path, *layout.tp, *layout.pp, *layout.vpp, *layout.ep, *layout.kv_multiplier,
                  nxd::QkvStyleName(*layout.qkv), models::HardwareName(*layout.hardware));
  if (layout.names) text += fmt::format(", style {}", nxd::NameStyleName(*layout.names));
  if (config.xser) text += *config.xser ? ", xser" : ", no xser";
  if (model_config) text += ", config " + *model_config;
  return text;
}

void TakeTraining(const nxd::NxdtConfig& config, hardware::TrainingUse& use) {
  if (config.sequence > 0) use.sequence = config.sequence;
  use.micro_batch = config.micro_batch;
  use.cp = config.context_parallel;
  use.zero1 = config.zero1;
  use.states = config.bf16_states ? hardware::States::kBf16 : hardware::States::kMixed;
  use.recompute = config.recompute;
}

// Adds what the file of --layout-from says and no option does to `said`; notes, the model's
// configuration and the training's settings to `sides`.
Status TakeLayoutFrom(const Kind& to, Arguments& said, Sides& sides) {
  const std::optional<std::string> path = said.Text("layout-from");
  if (!path) return OkStatus();
  said.Reset("layout-from");
  NXDKIT_ASSIGN(const nxd::NxdtConfig config, nxd::ReadNxdtConfig(*path));
  TakeLayout(config, to, said);
  NXDKIT_ASSIGN(sides.input.config_if_none, ModelConfigOf(config, *path));
  TakeTraining(config, sides.training);
  sides.notes.push_back(TakenText(config, *path, sides.input.config_if_none));
  return OkStatus();
}

// What follows from --instance, with which --hw must go together, --nodes and --seq.
Status TakeInstance(const Kind& to, const Arguments& said, Sides& sides) {
  sides.training.nodes = said.Number("nodes").value_or(1);
  if (const std::optional<int> seq = said.Number("seq")) sides.training.sequence = *seq;
  sides.instance = said.Text("instance");
  if (!sides.instance || !FindRow(to.options, "hw", kinds::kAsTarget)) return OkStatus();
  NXDKIT_ASSIGN(const hardware::Instance* const found, hardware::FindInstance(*sides.instance));
  const std::optional<std::string> hw = said.Text("hw");
  if (hw && *hw != found->platform)
    return BadUsage("hw {} does not go with --instance {}, which has {} devices", *hw, found->name,
                    found->platform)
        .hint("--hw, or --layout-from, says which of the two the set is for");
  sides.output.Set("hw-if-unsaid", std::string(found->platform == "trn2" ? "trn2" : "trn1"));
  return OkStatus();
}

}  // namespace

std::vector<rollout::Installation> InstalledHere() {
  return rollout::FindInstallations({.virtual_env = EnvironmentValue("VIRTUAL_ENV"),
                                     .conda_prefix = EnvironmentValue("CONDA_PREFIX"),
                                     .path = EnvironmentValue("PATH")});
}

artifact::InputHints HintsOf(const Arguments& given, const std::string& prefix) {
  artifact::InputHints hints;
  static_cast<Arguments&>(hints) = given;
  for (const kinds::OptionRow& row : kinds::CommonRows()) hints.Reset(row.name());
  hints.origin = "the command line";
  hints.prefix = prefix;
  hints.config = given.Text("config");
  hints.lora = given.Text("merge-lora").value_or("");
  return hints;
}

Result<Sides> SidesOf(const Arguments& given, const Kind& from, const Kind& to) {
  NXDKIT_TRY(CheckMeaning(given, from, to));
  Sides sides;
  sides.input = HintsOf(given);
  static_cast<Arguments&>(sides.input).Reset();
  Arguments said = given;
  NXDKIT_TRY(TakeLayoutFrom(to, said, sides));
  Distribute(said, to, sides);
  // How copies of heads are told from each other, where the set that is read does not say it.
  if (FindRow(to.options, "hw", kinds::kAsTarget))
    sides.input.Set("hw-if-unknown", said.Text("hw"));
  NXDKIT_TRY(TakeInstance(to, said, sides));
  if (FindRow(to.options, "optimum-version", kinds::kAsTarget) && !said.Has("bundle"))
    sides.output.Set("installations", InstalledHere());
  const std::optional<std::string> dtype = said.Text("dtype");
  sides.output.downcast = dtype == "downcast";
  if (dtype && *dtype != "keep" && !sides.output.downcast)
    sides.output.dtype = DtypeFromTorchName(*dtype);
  return sides;
}

Runner::Runner(const ToolContext& context) : sink_(context.progress_sink()) {
  options_.jobs = context.common().jobs;
  options_.max_memory = context.common().max_memory;
  options_.poll = StopIfInterrupted;
  options_.begin = [this](const std::string& phase, uint64_t bytes) {
    progress_.reset();
    progress_ = std::make_unique<Progress>(phase, bytes, sink_);
  };
  options_.on_bytes = [this](uint64_t bytes) {
    if (progress_) progress_->Add(bytes);
  };
}

}  // namespace nxdkit::tool
