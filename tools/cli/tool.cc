#include "tools/cli/tool.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "lib/base/text.h"
#include "lib/system/signals.h"
#include "tools/cli/completion.h"
#include "tools/cli/help.h"
#include "tools/cli/parse_arguments.h"
#include "tools/cli/report.h"
#include "tools/cli/terminal.h"

namespace nxdkit::tool {
namespace {

void AddCommonOptions(OptionTable& table, const ToolInfo& info, CommonArgs& common) {
  table.Group("Common options");
  if (info.common & kTakesJobs)
    table.Integer("jobs,j", "N", &common.jobs, {1, 256}, "threads to work on");
  if (info.common & kTakesMaxMemory)
    table.Size("max-memory", &common.max_memory, "memory to stay under");
  if (info.common & kTakesDryRun)
    table.Flag("dry-run,n", &common.dry_run, "say what would be done, and do nothing");
  if (info.common & kTakesForce)
    table.Flag("force,f", &common.force, "replace an output that exists");
  if (info.common & kTakesResume)
    table.Flag("resume", &common.resume, "go on with what an interrupted run left");
  table.Flag("json", &common.json, "print one JSON document on stdout");
  table.Flag("quiet,q", &common.quiet, "no progress and no warnings");
  table.Flag("verbose,v", &common.verbose, "say more on stderr");
  table.Choice("color", {"auto", "always", "never"}, &common.color, "colour messages");
  table.Choice("completion", {"bash", "zsh", "fish"}, &common.completion,
               "print a completion script for the shell");
  table.Flag("help,h", &common.help, "print this help");
  table.Flag("version,V", &common.version, "print the version");
}

// The option table for programs: --help --json.
Json HelpJson(const OptionTable& table) {
  Json options = Json::array();
  for (const OptionRow& row : table.rows()) {
    Json option = {{"group", row.group}, {"name", row.name}, {"help", row.help}};
    if (row.kind == OptionKind::kPositional)
      option["positional"] = true;
    else
      option["names"] = LongNames(row);
    if (row.short_name != 0) option["short"] = std::string(1, row.short_name);
    if (!row.value.empty()) option["value"] = row.value;
    if (!row.choices.empty()) option["choices"] = row.choices;
    if (!row.default_text.empty()) option["default"] = row.default_text;
    if (row.required) option["required"] = true;
    if (row.repeats) option["repeats"] = true;
    options.push_back(std::move(option));
  }
  return {{"options", std::move(options)}};
}

// The answers that need no input: help, version, completion.
std::optional<ToolAnswer> AnswerAboutItself(const ToolInfo& info, const OptionTable& table,
                                            const CommonArgs& common) {
  if (common.help) return ToolAnswer{.text = HelpText(info, table), .fields = HelpJson(table)};
  if (common.version)
    return ToolAnswer{.text = fmt::format("{} (nxdkit) {}\n", info.name, ToolVersion())};
  if (!common.completion) return std::nullopt;
  std::string script = CompletionScript(*common.completion, info, table);
  Json fields = {{"completion", script}};
  return ToolAnswer{.text = std::move(script), .fields = std::move(fields)};
}

Result<ToolAnswer> CallGuarded(const RunFunction& run, ToolContext& context) {
  try {
    return run(context);
  } catch (const std::bad_alloc&) {
    return Error(Errc::kLimit, "the system gave no more memory")
        .hint("lower --max-memory or --jobs, where the command has them");
  } catch (const std::exception& error) {
    return Error(Errc::kInternal, fmt::format("internal error: {}", error.what()))
        .hint("this is a bug of the program; please report it with the command line");
  } catch (...) {
    return Error(Errc::kInternal, "internal error: unknown exception");
  }
}

Error WithResumeHint(Error error, const ToolInfo& info) {
  if (error.code() != Errc::kInterrupted || (info.common & kTakesResume) == 0) return error;
  return std::move(error).hint("the same command line with --resume goes on from here");
}

// The document for an abort (a failed check of ours or of the C++ library), made ready before the
// work, because a signal handler may not allocate. Written once in RunTool.
char abort_document[512];

void HandleAbort(int) {
  const size_t bytes = std::strlen(abort_document);
  if (bytes > 0 && write(STDOUT_FILENO, abort_document, bytes) < 0) {
    // Nothing is left to tell it to.
  }
  _exit(ExitCode(Errc::kInternal));
}

void PrepareSignals(const ToolInfo& info, bool json) {
  abort_document[0] = 0;
  if (json) {
    const Error error(Errc::kInternal, "internal error: a check failed, see standard error");
    const std::string document =
        JsonDocument(info.name, ExitCode(Errc::kInternal), &error, {}, Json::object());
    if (document.size() < sizeof abort_document)
      std::memcpy(abort_document, document.c_str(), document.size() + 1);
  }
  InstallSignalHandlers();
  std::signal(SIGABRT, HandleAbort);
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of the write, see WriteStdout
  std::signal(SIGXFSZ, SIG_IGN);  // so is a file that grows over `ulimit -f`
}

// A shell's way to say that a signal ended a command: 130 for SIGINT, 143 for SIGTERM.
int FailureCode(const Error& error) {
  const std::optional<int> signal = Interrupted();
  if (error.code() == Errc::kInterrupted && signal) return 128 + *signal;
  return ExitCode(error.code());
}

// What is printed where, and the exit code.
class Outcome {
 public:
  Outcome(const ToolInfo& info, bool json, bool color) : info_(info), json_(json), color_(color) {}

  int Finish(ToolAnswer answer, const std::vector<std::string>& warnings) const {
    const int code = answer.findings ? ExitCode(Errc::kFindings) : 0;
    if (!json_) return Print(answer.text, code);
    return Print(JsonDocument(info_.name, code, nullptr, warnings, std::move(answer.fields)), code);
  }

  int Fail(const Error& error, const std::vector<std::string>& warnings) const {
    WriteStderr(ErrorLines(info_.name, error, color_));
    const int code = FailureCode(error);
    if (!json_) return code;
    return Print(JsonDocument(info_.name, code, &error, warnings, Json::object()), code);
  }

 private:
  int Print(const std::string& text, int code) const {
    bool closed = false;
    const Status status = WriteStdout(text, &closed);
    if (!status.ok()) WriteStderr(ErrorLines(info_.name, status.error(), color_));
    if (!status.ok() || closed) return code != 0 ? code : ExitCode(Errc::kIo);
    return code;
  }

  const ToolInfo& info_;
  bool json_;
  bool color_;
};

}  // namespace

ToolContext::ToolContext(const ToolInfo& info, const CommonArgs& common, bool color_errors)
    : info_(info),
      common_(common),
      color_errors_(color_errors),
      draws_progress_(!common.quiet && StderrIsTerminal()) {}

void ToolContext::Warn(std::string_view message) {
  warnings_.emplace_back(message);
  if (common_.quiet) return;
  // A progress line may stand there: it is drawn again below the warning.
  const char* erase = draws_progress_ ? "\r\033[K" : "";
  WriteStderr(erase + WarningLine(info_.name, message, color_errors_));
}

void ToolContext::Detail(std::string_view message) const {
  if (common_.verbose) WriteStderr(fmt::format("{}: {}\n", info_.name, EscapeControl(message)));
}

Progress::Sink ToolContext::progress_sink() const {
  if (!draws_progress_) return nullptr;
  return [](std::string_view text) { WriteStderr(text); };
}

int RunTool(int argc, const char* const* argv, const ToolInfo& info,
            const AddOptionsFunction& add_options, const RunFunction& run) {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  CommonArgs common;
  common.jobs = std::min(UsableCpus(), 256);
  OptionTable table;
  add_options(table);
  AddCommonOptions(table, info, common);

  const bool json = WantsJson(arguments);
  PrepareSignals(info, json);
  const Result<GivenRows> given = ParseArguments(table, arguments);
  const Outcome outcome(info, json, ColorOnStderr(common.color));
  if (!given.ok()) return outcome.Fail(given.error(), {});
  if (std::optional<ToolAnswer> answer = AnswerAboutItself(info, table, common))
    return outcome.Finish(*std::move(answer), {});
  const Status complete = CheckRequired(table, *given);
  if (!complete.ok()) return outcome.Fail(complete.error(), {});

  ToolContext context(info, common, ColorOnStderr(common.color));
  Result<ToolAnswer> answer = CallGuarded(run, context);
  if (!answer.ok()) return outcome.Fail(WithResumeHint(answer.error(), info), context.warnings());
  return outcome.Finish(*std::move(answer), context.warnings());
}

}  // namespace nxdkit::tool
