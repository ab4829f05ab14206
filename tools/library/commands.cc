#include "tools/commands.h"

#include <vector>

namespace nxdkit::tool {
namespace {

const std::vector<CommandWord>& Words() {
  static const std::vector<CommandWord> words = {
      {"convert", &kNxdConvert, {}, 1, {"base", "delta-from", "apply"}},
      {"reshard", &kNxdReshard},
      {"export", &kNeuronExport},
      {"inspect", &kCkptInspect},
      {"verify", &kCkptVerify, {}, 1, {"against", "weights"}},
      {"diff", &kCkptDiff, {}, CommandWord::kAllArguments},
      {"digest", &kCkptDigest},
      {"pack", &kCkptPack},
      {"cache", &kNeuronCache, {}, 0},
      {"train", nullptr, "grpo-train"},
      {"make-model", &kMakeModel, {}, 0},
      {"env", &kNxdkitEnv, {}, 0},
  };
  return words;
}

}  // namespace

std::span<const CommandWord> CommandWords() { return Words(); }

const CommandWord* FindCommandWord(std::string_view name) {
  for (const CommandWord& row : Words())
    if (row.command && (row.word == name || row.command->info->name == name)) return &row;
  return nullptr;
}

const Command* FindCommand(std::string_view name) {
  const CommandWord* const row = FindCommandWord(name);
  return row ? row->command : nullptr;
}

}  // namespace nxdkit::tool
