// PRIVATE to tools/: the frame of every command. It parses the options, runs the command, prints
// the answer or the error once, as text or as JSON, and turns the outcome into the exit code.
//
//   struct Args {
//     std::string input;
//     artifact::Arguments layout;
//   };
//   void AddOptions(OptionTable& table, Args& args) {
//     table.Positional("INPUT", &args.input, "what to read");
//   }
//   Result<ToolAnswer> Run(const Args& args, ToolContext& context) { ... }
//
//   constinit const Command kMyTool = MakeCommand<AddOptions, Run>(kInfo);
//   int main(int argc, char** argv) { return RunTool(argc, argv, kMyTool); }
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/json/json.h"
#include "tools/cli/option_table.h"
#include "tools/cli/tool_context.h"

namespace nxdkit::tool {

// The result of a command. A failure is an Error instead, or findings when the answer is "no".
struct ToolAnswer {
  std::string text;              // for people, on stdout without --json; ends with a line feed
  Json fields = Json::object();  // for --json, after the envelope's own keys
  bool findings = false;         // exit code 1, status "findings"
  // In the place of `text` with -q: the answer alone. "" where the text only says what was done.
  std::optional<std::string> brief{};
};

using AddOptionsFunction = std::function<void(OptionTable&)>;
using RunFunction = std::function<Result<ToolAnswer>(ToolContext&)>;

// One run of a command: both functions share the arguments.
struct Call {
  AddOptionsFunction add_options;
  RunFunction run;
};

struct Command {
  const ToolInfo* info;
  Call (*make)();
};

template <typename Args>
Call CallOf(void (*add_options)(OptionTable&, Args&),
            Result<ToolAnswer> (*run)(const Args&, ToolContext&)) {
  const auto args = std::make_shared<Args>();
  return {[=](OptionTable& table) { add_options(table, *args); },
          [=](ToolContext& context) { return run(*args, context); }};
}

template <auto AddOptions, auto Run>
constexpr Command MakeCommand(const ToolInfo& info) {
  return {&info, [] { return CallOf(AddOptions, Run); }};
}

// Returns the exit code of the process. No exception escapes: one is exit code 70.
int RunTool(int argc, const char* const* argv, const Command& command);

// The exit code of a call that its caller stopped: as a shell reports Ctrl-C.
inline constexpr int kStoppedByCaller = 130;

// The same for a caller in this process, who gets the document of --json; prints nothing.
struct Outcome {
  int exit_code = 0;
  std::string document;
};
Outcome CallTool(const std::vector<std::string>& arguments, const Command& command, Host& host);

// RunTool's handling of signals and aborts, for a process that does not call it. `json`: an abort
// prints a document.
void PrepareSignals(const ToolInfo& info, bool json);

// Parses the words as RunTool does; nullopt when it would not run the command: the words are wrong,
// or ask about the command itself.
std::optional<CommonArgs> ParseTool(int argc, const char* const* argv, const ToolInfo& info,
                                    const AddOptionsFunction& add_options);

}  // namespace nxdkit::tool
