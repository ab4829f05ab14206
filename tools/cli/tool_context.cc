#include "tools/cli/tool_context.h"

#include <fmt/core.h>

#include "formats/kinds/kind.h"
#include "lib/base/text.h"
#include "tools/cli/report.h"

namespace nxdkit::tool {

void AddCommonOptions(OptionTable& table, const ToolInfo& info, CommonArgs& common) {
  table.Group("Common options");
  if (info.common & kTakesJobs)
    table.Integer("jobs,j", "N", &common.jobs, {1, 256}, "number of threads");
  if (info.common & kTakesMaxMemory) table.Size("max-memory", &common.max_memory, "memory limit");
  if (info.common & kTakesDryRun)
    table.Flag("dry-run,n", &common.dry_run, "print the plan and change nothing");
  if (info.common & kTakesForce) table.Flag("force,f", &common.force, "replace an existing output");
  if (info.common & kTakesResume)
    table.Flag("resume", &common.resume, "continue an interrupted run");
  table.Flag("json", &common.json, "print one JSON document on stdout");
  table.Flag("quiet,q", &common.quiet, "print the answer alone: no progress, no warnings");
  table.Flag("verbose,v", &common.verbose, "say on stderr what was chosen, and why");
  table.Choice("color", {"auto", "always", "never"}, &common.color, "colour messages");
  table.Choice("completion", {"bash", "zsh", "fish"}, &common.completion,
               "print a completion script for the shell");
  table.Flag("help,h", &common.help, "print this help; -h a short one");
  table.Flag("version,V", &common.version, "print the version");
}

ToolContext::ToolContext(const ToolInfo& info, const CommonArgs& common, Host& host)
    : info_(info), common_(common), host_(host) {}

void ToolContext::Warn(std::string_view text) {
  const std::string message = ShortText(std::string(text));
  said_.warnings.push_back(message);
  host_.Line(WarningLine(info_.name, message, host_.has_color()));
}

void ToolContext::Tell(const Choice& choice) {
  Record(choice);
  if (choice.by == "option") return;
  host_.Line(fmt::format("{}: {}\n", info_.name, EscapeControl(ChoiceText(choice))));
}

void ToolContext::Tell(const Said& said) {
  for (const Choice& choice : said.choices) Tell(choice);
  for (const std::string& warning : said.warnings) Warn(warning);
}

void ToolContext::Note(std::string_view message) const {
  host_.Note(fmt::format("{}: {}\n", info_.name, EscapeControl(message)));
}

void ToolContext::Detail(std::string_view message) const {
  if (common_.verbose) host_.Detail(fmt::format("{}: {}\n", info_.name, EscapeControl(message)));
}

void ToolContext::DetailKind(std::string_view path, const kinds::Kind* kind, bool asked) const {
  if (kind == nullptr) return;
  Detail(fmt::format("{} is {}, {}", path, kind->called,
                     asked ? "as asked" : "recognised by its files"));
}

}  // namespace nxdkit::tool
