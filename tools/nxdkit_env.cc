// nxdkit-env: reports this machine for a bug report, and the share of its cores a model would take.
#include <fmt/format.h>

#include <algorithm>

#include "formats/hardware/resolve.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "tools/cli/tool.h"
#include "tools/commands.h"
#include "tools/env/machine.h"
#include "tools/env/places.h"
#include "tools/env/software.h"
#include "tools/env/system.h"

namespace nxdkit::tool {
namespace {

struct Args {
  std::vector<std::string> paths;
  std::optional<std::string> neuron_ls;
  std::optional<std::string> instance;
  std::optional<std::string> model;
  std::optional<int> batch;
  std::optional<int> sequence;
};

const ToolInfo kInfo = {
    .name = "nxdkit-env",
    .summary = "describes this machine for a bug report",
    .details =
        "Prints versions, the system and its limits, relevant file systems, the vendor's software "
        "and variables, and the Neuron devices, with the source of each fact. Values that may be "
        "secret are hidden. Missing parts are printed as missing.",
    .findings = "",
    .common = 0,
    .essentials = {"model", "bs", "seq", "instance", "json"},
    .examples = {{"nxdkit-env", "describe the machine for a bug report"},
                 {"nxdkit-env /fsx/run", "describe the file system of a folder"},
                 {"nxdkit-env --model Qwen3-4B --bs 64", "show the sizes that fit this machine"},
                 {"nxdkit-env --model Qwen3-4B --instance trn1.32xlarge",
                  "show the sizes that fit another machine"},
                 {"nxdkit-env --neuron-ls capture.json",
                  "describe the machine of a neuron-ls file"}},
};

void AddOptions(OptionTable& table, Args& args) {
  table.Group("File systems");
  table.Positionals("PATH", &args.paths,
                    "path whose file system is described, instead of the usual places");
  table.Group("Machine");
  table
      .Text("neuron-ls", "FILE", &args.neuron_ls,
            "describe the machine that printed this file with `neuron-ls --json-output`")
      .completes(Completes::kPath);
  table.Group("Fit of a model");
  table
      .Text("model", "MODEL", &args.model,
            "Hugging Face folder or config.json: print the tensor parallel sizes that fit")
      .completes(Completes::kPath);
  table.Text("instance", "NAME", &args.instance,
             "with --model: instance other than this machine, such as trn1.32xlarge");
  const FitQuery usual;
  table.Integer("bs,batch-size", "N", &args.batch, kPositive, "with --model: batch size")
      .default_text(std::to_string(usual.batch));
  table
      .Integer("seq,sequence-length", "N", &args.sequence, kPositive,
               "with --model: sequence length")
      .default_text(std::to_string(usual.sequence));
}

constexpr size_t kColumn = 14;

std::string TextOf(const Section& section) {
  std::string text;
  std::string before;
  for (const auto& [what, value] : section.rows) {
    text += fmt::format("{:<{}}{}\n", what == before ? "" : what, kColumn, EscapeControl(value));
    before = what;
  }
  return text;
}

void Add(const std::string& key, const Section& section, ToolAnswer& answer) {
  answer.text += TextOf(section);
  answer.fields[key] = section.json;
}

Result<hardware::Machine> MachineAsked(const Args& args, const ToolContext& context) {
  if (args.neuron_ls) return hardware::MachineOfCapture(*args.neuron_ls, context.poll());
  return hardware::ReadMachine(hardware::SourcesOfProcess(context.poll()));
}

// nullopt: no instance to fit a model to.
Result<std::optional<hardware::Instance>> InstanceFor(const Args& args,
                                                      const hardware::Machine& machine,
                                                      ToolContext& context) {
  if (args.instance) {
    // "auto" is the machine that was already read: from --neuron-ls, or this one.
    NXDKIT_ASSIGN(hardware::ResolvedInstance found,
                  *args.instance == hardware::kAuto
                      ? hardware::ResolveMachine(machine)
                      : hardware::ResolveInstance(*args.instance, {}));
    for (const std::string& note : found.notes) context.Note("--instance: " + note);
    return std::optional(std::move(found.instance));
  }
  Result<hardware::Instance> own = hardware::InstanceOf(machine);
  if (own.ok()) return std::optional(*std::move(own));
  context.Warn(fmt::format(
      "--model: {}; --instance NAME selects another machine",
      machine.has_devices() ? own.error().message() : "there are no Neuron devices here"));
  return std::optional<hardware::Instance>();
}

Status CheckOptions(const Args& args) {
  if (args.model) return OkStatus();
  const char* const alone = args.instance   ? "--instance"
                            : args.batch    ? "--bs"
                            : args.sequence ? "--seq"
                                            : nullptr;
  if (alone) return BadUsage("{} applies to --model, which is missing", alone);
  return OkStatus();
}

FitQuery QueryOf(const Args& args) {
  FitQuery query;
  query.model = *args.model;
  query.batch = args.batch.value_or(query.batch);
  query.sequence = args.sequence.value_or(query.sequence);
  return query;
}

Result<ToolAnswer> Run(const Args& args, ToolContext& context) {
  NXDKIT_TRY(CheckOptions(args));
  NXDKIT_ASSIGN(const hardware::Machine machine, MachineAsked(args, context));
  ToolAnswer answer;
  Add("build", BuildSection(), answer);
  Add("libraries", LibrariesSection(), answer);
  Add("system", SystemSection(), answer);
  Add("places", PlacesSection(args.paths), answer);
  NXDKIT_ASSIGN(const Section software, PackagesSection(context.poll()));
  Add("software", software, answer);
  Add("variables", VariablesSection(), answer);
  Add("machine", MachineSection(machine), answer);
  answer.fields["fits"] = Json();
  if (!args.model) return answer;
  NXDKIT_ASSIGN(const std::optional<hardware::Instance> instance,
                InstanceFor(args, machine, context));
  if (!instance) return answer;
  NXDKIT_ASSIGN(const Section fits, FitsSection(QueryOf(args), *instance));
  Add("fits", fits, answer);
  return answer;
}

}  // namespace

constinit const Command kNxdkitEnv = MakeCommand<AddOptions, Run>(kInfo);

}  // namespace nxdkit::tool
