#include "tools/conversions/layout_from.h"

#include <fmt/core.h>

#include "formats/hardware/resolve.h"
#include "formats/nxd/nxdt_config.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"
#include "lib/system/user_path.h"

namespace nxdkit::tool {
namespace {

template <typename T>
void SetUnlessSaid(artifact::Arguments& said, std::string_view name,
                   const std::optional<T>& value) {
  if (value && !said.Has(name)) said.Set(name, *value);
}

// The options, completed from the file. Where the output has no such layout it describes the input.
void TakeLayout(const nxd::NxdtConfig& config, const kinds::Kind& to, artifact::Arguments& said) {
  const nxd::LayoutOptions& layout = config.layout;
  if (!to.refreshes) SetUnlessSaid(said, "tp", layout.tp);  // there tp is the engine's
  SetUnlessSaid(said, "pp", layout.pp);
  SetUnlessSaid(said, "vpp", layout.vpp);
  SetUnlessSaid(said, "ep", layout.ep);
  SetUnlessSaid(said, "kv-multiplier", layout.kv_multiplier);
  const auto text = [](std::string_view name) { return std::optional(std::string(name)); };
  if (layout.hardware) SetUnlessSaid(said, "hw", text(models::HardwareName(*layout.hardware)));
  if (layout.names) SetUnlessSaid(said, "style", text(nxd::NameStyleName(*layout.names)));
  if (FindRow(to.options, "xser", kinds::kAsTarget)) SetUnlessSaid(said, "xser", config.xser);
}

// The model's config.json, at the named path or relative to the file itself.
Result<std::optional<std::string>> ModelConfigOf(const nxd::NxdtConfig& config,
                                                 const std::string& path) {
  if (config.model_config.empty()) return std::optional<std::string>();
  const Result<std::string> named = UserPath(config.model_config);
  if (!named.ok()) return std::optional<std::string>();
  for (const std::string& place : {*named, JoinPath(ParentPath(path), *named)}) {
    NXDKIT_ASSIGN(const bool there, IsFile(place));
    if (there) return std::optional(place);
  }
  return std::optional<std::string>();
}

// The layout from the file, so that the user sees whether it was the right file.
std::string TakenText(const nxd::NxdtConfig& config, const std::string& path,
                      const std::optional<std::string>& model_config) {
  const nxd::LayoutOptions& layout = config.layout;
  std::string text =
      fmt::format("layout from {}: tp {}, pp {}, vpp {}, ep {}, kv multiplier {}", path, *layout.tp,
                  *layout.pp, *layout.vpp, *layout.ep, *layout.kv_multiplier);
  if (config.qkv) text += fmt::format(", q/k/v {}", nxd::QkvStyleName(*config.qkv));
  if (config.qkv == nxd::QkvStyle::kCoalesced) text += " (separate with fewer key heads)";
  if (layout.hardware) text += fmt::format(", {}", models::HardwareName(*layout.hardware));
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

// For kinds with --hw: the set must be for the devices of the instance.
Status CheckHardware(const kinds::Kind& to, const artifact::Arguments& said,
                     const hardware::Instance& instance, Sides& sides) {
  const std::string& platform = instance.platform;
  if (!FindRow(to.options, "hw", kinds::kAsTarget)) return OkStatus();
  if (platform != "trn1" && platform != "trn2") return OkStatus();
  const std::optional<std::string> hw = said.Text("hw");
  if (hw && *hw != platform)
    return BadUsage("hw {} does not match --instance {}, which has {} devices", *hw, instance.name,
                    platform)
        .hint("--hw, or --layout-from, says which of the two the set is for");
  sides.output.Set("hw-if-unsaid", platform);
  return OkStatus();
}

// No warning for an unknown machine.
Status TakeMachineHere(const ToolContext& context, Sides& sides) {
  NXDKIT_ASSIGN(const std::optional<hardware::Machine> here,
                hardware::MachineHere(hardware::SourcesOfProcess(context.poll())));
  if (!here) return OkStatus();
  Result<hardware::Instance> instance = hardware::InstanceOf(*here);
  if (instance.ok()) sides.here = *std::move(instance);
  return OkStatus();
}

}  // namespace

Status TakeLayoutFrom(const kinds::Kind& to, artifact::Arguments& said, Sides& sides) {
  const std::optional<std::string> path = said.Text("layout-from");
  if (!path) return OkStatus();
  said.Reset("layout-from");
  NXDKIT_ASSIGN(const nxd::NxdtConfig config, nxd::ReadNxdtConfig(*path));
  TakeLayout(config, to, said);
  // Only a preference: some models have one style only. In a set that is read the names show it.
  if (config.qkv && FindRow(to.options, "qkv", kinds::kAsTarget))
    sides.output.Set("qkv-if-unsaid", std::string(nxd::QkvStyleName(*config.qkv)));
  NXDKIT_ASSIGN(sides.input.config_if_none, ModelConfigOf(config, *path));
  TakeTraining(config, sides.training);
  if (!config.model_config.empty() && !sides.input.config_if_none)
    sides.notes.push_back(fmt::format("{}: its model_config {} is not there", *path,
                                      EscapeControl(config.model_config)));
  for (const std::string& note : config.notes)
    sides.notes.push_back(fmt::format("{}: {}", *path, note));
  sides.notes.push_back(TakenText(config, *path, sides.input.config_if_none));
  return OkStatus();
}

Status TakeInstance(const kinds::Kind& to, const artifact::Arguments& said,
                    const ToolContext& context, Sides& sides) {
  sides.training.nodes = said.Number("nodes").value_or(1);
  if (const std::optional<int> seq = said.Number("seq")) sides.training.sequence = *seq;
  if (!FindRow(to.options, "instance", kinds::kAsTarget)) return OkStatus();
  const std::optional<std::string> name = said.Text("instance");
  if (!name) return TakeMachineHere(context, sides);
  NXDKIT_ASSIGN(hardware::ResolvedInstance found,
                hardware::ResolveInstance(*name, hardware::SourcesOfProcess(context.poll())));
  for (std::string& note : found.notes) sides.notes.push_back("--instance: " + std::move(note));
  NXDKIT_TRY(CheckHardware(to, said, found.instance, sides));
  sides.instance = std::move(found.instance);
  return OkStatus();
}

}  // namespace nxdkit::tool
