#include "tools/commands.h"

#include <algorithm>

namespace nxdkit::tool {
namespace {

constinit const CommandWord kWords[] = {
    {"convert", &kNxdConvert},        {"reshard", &kNxdReshard},   {"export", &kNeuronExport},
    {"inspect", &kCkptInspect},       {"verify", &kCkptVerify},    {"diff", &kCkptDiff},
    {"digest", &kCkptDigest},         {"pack", &kCkptPack},        {"cache", &kNeuronCache},
    {"train", nullptr, "grpo-train"}, {"make-model", &kMakeModel}, {"env", &kNxdkitEnv},
};

}  // namespace

std::span<const CommandWord> CommandWords() { return kWords; }

const Command* FindCommand(std::string_view name) {
  const auto fits = [&](const CommandWord& row) {
    return row.command && (row.word == name || row.command->info->name == name);
  };
  const auto found = std::ranges::find_if(kWords, fits);
  return found == std::end(kWords) ? nullptr : found->command;
}

}  // namespace nxdkit::tool
