#include "tools/cli/tool.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "lib/base/errors.h"
#include "lib/system/signals.h"
#include "tools/cli/completion.h"
#include "tools/cli/help.h"
#include "tools/cli/house_rules.h"
#include "tools/cli/process_host.h"
#include "tools/cli/report.h"
#include "tools/cli/terminal.h"

namespace nxdkit::tool {
namespace {

// The topic of "--help=nxd" is taken out of the arguments; "-h" alone has one too.
std::string TakeHelpTopic(std::vector<std::string>& arguments) {
  constexpr std::string_view kHelp = "--help=";
  std::string topic;
  for (std::string& argument : arguments) {
    if (argument == "--") break;
    if (argument == "-h") {
      if (topic.empty()) topic = kShortHelp;
    } else if (argument.starts_with(kHelp) && argument.size() > kHelp.size()) {
      topic = argument.substr(kHelp.size());
      argument = "--help";
    }
  }
  return topic;
}

// The answers that need no input: help, version, completion.
Result<std::optional<ToolAnswer>> AnswerAboutItself(const ToolInfo& info, const OptionTable& table,
                                                    const CommonArgs& common) {
  using Answer = std::optional<ToolAnswer>;
  const std::vector<OptionFacts> options = table.Facts();
  if (common.help) {
    NXDKIT_ASSIGN(std::string text, HelpText(info, options, common.help_topic));
    return Answer(ToolAnswer{.text = std::move(text), .fields = HelpJson(options)});
  }
  if (common.version)
    return Answer(ToolAnswer{.text = fmt::format("{} (nxdkit) {}\n", info.name, ToolVersion())});
  if (!common.completion) return Answer();
  std::string script = CompletionScript(*common.completion, info, options);
  Json fields = {{"completion", script}};
  return Answer(ToolAnswer{.text = std::move(script), .fields = std::move(fields)});
}

Result<ToolAnswer> CallGuarded(const RunFunction& run, ToolContext& context) {
  try {
    return run(context);
  } catch (const std::bad_alloc&) {
    return OverLimit("the system gave no more memory")
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
  return std::move(error).hint("run the same command line with --resume to continue");
}

// The document for an abort (a failed check of ours or of the C++ library), prepared before the
// work, because a signal handler may not allocate. Written once in RunTool.
char abort_document[512];

void HandleAbort(int) {
  const size_t bytes = std::strlen(abort_document);
  if (bytes > 0 && write(STDOUT_FILENO, abort_document, bytes) < 0) {
    // There is nobody left to report to.
  }
  _exit(ExitCode(Errc::kInternal));
}

// The shell's exit code for a command ended by a signal: 130 for SIGINT, 143 for SIGTERM.
int FailureCode(const Error& error) {
  const std::optional<int> signal = Interrupted();
  if (error.code() == Errc::kInterrupted && signal) return 128 + *signal;
  return ExitCode(error.code());
}

// The texts for stdout and stderr, and the exit code.
class Printer {
 public:
  Printer(const ToolInfo& info, const CommonArgs& common, bool json)
      : info_(info), quiet_(common.quiet), json_(json), color_(ColorOnStderr(common.color)) {}

  int Finish(ToolAnswer answer, const Said& said) const {
    const int code = answer.findings ? ExitCode(Errc::kFindings) : 0;
    if (!json_) return Print(quiet_ && answer.brief ? *answer.brief : answer.text, code);
    return Print(JsonDocument(info_.name, code, nullptr, said, std::move(answer.fields)), code);
  }

  int Fail(const Error& error, const Said& said) const {
    WriteStderr(ErrorLines(info_.name, error, color_));
    const int code = FailureCode(error);
    if (!json_) return code;
    return Print(JsonDocument(info_.name, code, &error, said, Json::object()), code);
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
  bool quiet_;
  bool json_;
  bool color_;
};

// A command and its words, read in one place for a process and for a caller.
class Prepared {
 public:
  Prepared(std::vector<std::string> arguments, const Command& command)
      : info_(*command.info), arguments_(std::move(arguments)), call_(command.make()) {
    common_.help_topic = TakeHelpTopic(arguments_);
    common_.jobs = std::min(UsableCpus(), 256);
    call_.add_options(table_);
    AddCommonOptions(table_, info_, common_);
  }
  Prepared(const Prepared&) = delete;  // the table points into it
  Prepared& operator=(const Prepared&) = delete;

  const CommonArgs& common() const { return common_; }

  // The answer where the command is asked about itself alone; nullopt: the command is to run.
  Result<std::optional<ToolAnswer>> Parse() {
    NXDKIT_TRY(table_.Parse(arguments_));
    NXDKIT_ASSIGN(std::optional<ToolAnswer> about_itself,
                  AnswerAboutItself(info_, table_, common_));
    if (!about_itself) NXDKIT_TRY(table_.CheckRequired());
    return about_itself;
  }

  Result<ToolAnswer> Run(ToolContext& context) const { return CallGuarded(call_.run, context); }

 private:
  const ToolInfo& info_;
  std::vector<std::string> arguments_;
  CommonArgs common_;
  Call call_;
  OptionTable table_;
};

}  // namespace

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
  std::signal(SIGXFSZ, SIG_IGN);  // so is a file that grows beyond `ulimit -f`
}

std::optional<CommonArgs> ParseTool(int argc, const char* const* argv, const ToolInfo& info,
                                    const AddOptionsFunction& add_options) {
  CommonArgs common;
  OptionTable table;
  add_options(table);
  AddCommonOptions(table, info, common);
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  common.help_topic = TakeHelpTopic(arguments);
  if (!table.Parse(arguments).ok() || common.help) return std::nullopt;
  const auto about_itself = AnswerAboutItself(info, table, common);
  if (!about_itself.ok() || *about_itself || !table.CheckRequired().ok()) return std::nullopt;
  return common;
}

int RunTool(int argc, const char* const* argv, const Command& command) {
  const ToolInfo& info = *command.info;
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const bool json = WantsJson(arguments);
  PrepareSignals(info, json);
  Prepared prepared(std::move(arguments), command);
  const Result<std::optional<ToolAnswer>> answer_before = prepared.Parse();
  const CommonArgs& common = prepared.common();
  const Printer printer(info, common, json);
  if (!answer_before.ok()) return printer.Fail(answer_before.error(), {});
  if (*answer_before) return printer.Finish(**answer_before, {});
  ProcessHost host(info.name, common.quiet, ColorOnStderr(common.color));
  ToolContext context(info, common, host);
  Result<ToolAnswer> answer = prepared.Run(context);
  if (!answer.ok()) return printer.Fail(WithResumeHint(answer.error(), info), context.said());
  return printer.Finish(*std::move(answer), context.said());
}

Outcome CallTool(const std::vector<std::string>& arguments, const Command& command, Host& host) {
  const ToolInfo& info = *command.info;
  const auto fail = [&](const Error& error, const Said& said) {
    const int code = error.code() == Errc::kInterrupted ? kStoppedByCaller : ExitCode(error.code());
    return Outcome{code, JsonDocument(info.name, code, &error, said, Json::object())};
  };
  const auto finish = [&](ToolAnswer answer, const Said& said) {
    const int code = answer.findings ? ExitCode(Errc::kFindings) : 0;
    return Outcome{code, JsonDocument(info.name, code, nullptr, said, std::move(answer.fields))};
  };
  std::vector<std::string> words = arguments;
  words.insert(words.begin(), "--json");
  Prepared prepared(std::move(words), command);
  Result<std::optional<ToolAnswer>> answer_before = prepared.Parse();
  if (!answer_before.ok()) return fail(answer_before.error(), {});
  if (*answer_before) return finish(**std::move(answer_before), {});
  ToolContext context(info, prepared.common(), host);
  Result<ToolAnswer> answer = prepared.Run(context);
  if (!answer.ok()) return fail(WithResumeHint(answer.error(), info), context.said());
  return finish(*std::move(answer), context.said());
}

}  // namespace nxdkit::tool
