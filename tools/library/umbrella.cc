#include "tools/library/umbrella.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/look.h"
#include "lib/system/paths.h"
#include "tools/commands.h"

namespace nxdkit::tool {
namespace {

struct UmbrellaArgs {
  std::vector<std::string> words;
};

std::string NameOfRow(const CommandWord& row) {
  return row.command ? row.command->info->name : std::string(row.program);
}

std::string WordLines() {
  std::string text = "WORD is one of:\n";
  for (const CommandWord& row : CommandWords())
    text += fmt::format("{}: {}, {}\n", row.word, NameOfRow(row),
                        row.command ? row.command->info->summary
                                    : std::string("trains a language model with GRPO"));
  return text + "`nxdkit WORD --help` shows the options of a command.";
}

std::vector<std::string> AllWords() {
  std::vector<std::string> words;
  for (const CommandWord& row : CommandWords()) words.emplace_back(row.word);
  return words;
}

const ToolInfo& UmbrellaInfo() {
  static const ToolInfo info = {
      .name = "nxdkit",
      .summary = fmt::format("runs a command: {}", fmt::join(AllWords(), ", ")),
      .details = WordLines(),
      .findings = "as documented for the command",
      .usages = {"nxdkit WORD [options] [ARGUMENT ...]"},
      .examples = {{"nxdkit inspect model", "show what is in a folder"},
                   {"nxdkit convert --to nxd --tp 8 model shards", "run nxd-convert"}},
  };
  return info;
}

void AddUmbrellaOptions(OptionTable& table, UmbrellaArgs& args) {
  table.Group("Arguments");
  table.Positionals("WORD", &args.words, "word of a command, and its arguments");
}

const CommandWord* ProgramOf(std::string_view word) {
  for (const CommandWord& row : CommandWords())
    if (!row.command && (row.word == word || row.program == word)) return &row;
  return nullptr;
}

// Reports a program that is not installed: an installed one has replaced this process by now.
Result<ToolAnswer> RefuseProgram(const UmbrellaArgs& args, ToolContext&) {
  return NotFound("the program {} is not installed", ProgramOf(args.words[0])->program)
      .hint("it comes with the package nxdkit-train, which has libraries of its own");
}

// Refuses a missing word, an unknown one, and one after options.
Result<ToolAnswer> RefuseWord(const UmbrellaArgs& args, ToolContext&) {
  const std::vector<std::string> words = AllWords();
  if (args.words.empty())
    return BadUsage("the word of a command is missing: {}", fmt::join(words, ", "))
        .hint("nxdkit --help says what each does");
  if (FindCommand(args.words[0]) || ProgramOf(args.words[0]))
    return BadUsage("options come after the word of the command")
        .hint(fmt::format("nxdkit {} ... --json", args.words[0]));
  const std::optional<std::string> near = ClosestWord(args.words[0], words);
  return BadUsage("there is no command \"{}\"", args.words[0])
      .hint(near ? fmt::format("did you mean {}?", *near)
                 : fmt::format("one of {}", fmt::join(words, ", ")));
}

// Runs the program next to this one, else the one that the shell would find. Returns if there is
// none.
void TryProgram(std::string_view program, int argc, const char* const* argv) {
  std::string name(program);
  std::vector<char*> words{name.data()};
  for (int i = 1; i < argc; ++i) words.push_back(const_cast<char*>(argv[i]));
  words.push_back(nullptr);
  const Result<std::string> self = ReadLink("/proc/self/exe");
  if (self.ok()) ::execv(JoinPath(ParentPath(*self), name).c_str(), words.data());
  ::execvp(name.c_str(), words.data());
}

}  // namespace

int RunUmbrella(int argc, const char* const* argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (const Command* command = FindCommand(word)) return RunTool(argc - 1, argv + 1, *command);
  if (const CommandWord* row = ProgramOf(word)) {
    TryProgram(row->program, argc - 1, argv + 1);
    // Its options are not ours to parse.
    return RunTool(2, argv, MakeCommand<AddUmbrellaOptions, RefuseProgram>(UmbrellaInfo()));
  }
  return RunTool(argc, argv, MakeCommand<AddUmbrellaOptions, RefuseWord>(UmbrellaInfo()));
}

}  // namespace nxdkit::tool
