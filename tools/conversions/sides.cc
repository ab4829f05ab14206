#include "tools/conversions/sides.h"

#include <algorithm>

#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "lib/base/errors.h"
#include "lib/system/process.h"
#include "tools/conversions/layout_from.h"

namespace nxdkit::tool {
namespace {

using artifact::Arguments;
using kinds::Kind;

// The row of this name that describes the conversion's output or, failing that, its input; nullptr
// if neither has one. The base of a kind that reads one may be of any kind.
const kinds::OptionRow* RowOf(std::string_view name, const Kind& from, const Kind& to) {
  if (const kinds::OptionRow* row = FindRow(to.options, name, kinds::kAsTarget)) return row;
  if (const kinds::OptionRow* row = FindRow(from.options, name, kinds::kAsSource)) return row;
  if (from.reads_base)
    for (const Kind* kind : kinds::Kinds())
      if (const kinds::OptionRow* row = FindRow(kind->options, name, kinds::kAsRead)) return row;
  return FindRow(kinds::CommonRows(), name, ~0u);
}

// A value that the same option of another kind takes.
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

void TakeDtype(const Arguments& said, kinds::OutputOptions& output) {
  const std::optional<std::string> dtype = said.Text("dtype");
  output.downcast = dtype == "downcast";
  if (dtype && *dtype != "keep" && !output.downcast) output.dtype = DtypeFromTorchName(*dtype);
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
  hints.family = given.Text("family").value_or("");
  hints.lora = given.Text("merge-lora").value_or("");
  hints.lora_alpha = given.Text("lora-alpha");
  return hints;
}

Result<Sides> SidesOf(const Arguments& given, const Kind& from, const Kind& to,
                      const ToolContext& context) {
  NXDKIT_TRY(CheckMeaning(given, from, to));
  Sides sides;
  sides.input = HintsOf(given);
  static_cast<Arguments&>(sides.input).Reset();
  Arguments said = given;
  NXDKIT_TRY(TakeLayoutFrom(to, said, sides));
  Distribute(said, to, sides);
  // The hint tells copies of heads from each other where the set that is read does not.
  if (FindRow(to.options, "hw", kinds::kAsTarget))
    sides.input.Set("hw-if-unknown", said.Text("hw"));
  NXDKIT_TRY(TakeInstance(to, said, context, sides));
  if (FindRow(to.options, "optimum-version", kinds::kAsTarget) && !said.Has("bundle"))
    sides.output.Set("installations", InstalledHere());
  TakeDtype(said, sides.output);
  return sides;
}

Result<kinds::OutputOptions> OutputOptionsOf(const Arguments& given, const Kind& from,
                                             const Kind& to) {
  NXDKIT_TRY(CheckMeaning(given, from, to));
  Sides sides;
  Distribute(given, to, sides);
  TakeDtype(given, sides.output);
  return std::move(sides.output);
}

Status TakeHeld(const ToolContext& context, const std::string& path, const Kind*& kind,
                artifact::InputHints& hints) {
  const HeldSource* const held = context.host().Held(path);
  if (held == nullptr) return OkStatus();
  if (held->hints.memory && hints.config)
    return BadUsage("its configuration was given with the tensors, and this is another")
        .in(path)
        .on(*hints.config);
  if (kind == nullptr) kind = held->kind;
  artifact::InputHints both = held->hints;
  for (const auto& [name, value] : hints.values()) both.SetAny(name, value);
  if (hints.config) both.config = hints.config;
  if (hints.config_if_none) both.config_if_none = hints.config_if_none;
  if (!hints.family.empty()) both.family = hints.family;
  if (!hints.lora.empty()) both.lora = hints.lora;
  if (hints.lora_alpha) both.lora_alpha = hints.lora_alpha;
  both.optimizer = hints.optimizer;
  both.config_optional = hints.config_optional;
  both.origin = hints.origin;
  both.prefix = hints.prefix;
  hints = std::move(both);
  return OkStatus();
}

std::function<Result<artifact::Artifact>()> OpenerOf(const HeldSource& held,
                                                     const std::string& path) {
  return [held, path] { return kinds::OpenArtifact(path, held.kind, held.hints); };
}

Runner::Runner(const ToolContext& context) : host_(context.host()) {
  options_.jobs = context.common().jobs;
  options_.max_memory = context.common().max_memory;
  options_.alone = context.host().is_process();
  options_.poll = context.poll();
  options_.begin = [host = &host_](const std::string& phase, uint64_t bytes) {
    host->BeginPhase(phase, bytes);
  };
  options_.on_bytes = [host = &host_](uint64_t bytes) { host->AddBytes(bytes); };
}

}  // namespace nxdkit::tool
