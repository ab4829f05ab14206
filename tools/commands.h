// PRIVATE to tools/: the commands that are in the library, each defined in the file of its name.
// The trainer is a program of its own (grpo_train.cc): it brings libraries of tens of megabytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tools/cli/tool.h"

namespace nxdkit::tool {

extern const Command kCkptDiff;
extern const Command kCkptDigest;
extern const Command kCkptInspect;
extern const Command kCkptPack;
extern const Command kCkptVerify;
extern const Command kMakeModel;
extern const Command kNeuronCache;
extern const Command kNeuronExport;
extern const Command kNxdConvert;
extern const Command kNxdReshard;
extern const Command kNxdkitEnv;

// A command as `nxdkit WORD` has it.
struct CommandWord {
  static constexpr size_t kAllArguments = SIZE_MAX;
  std::string_view word;          // "convert"
  const Command* command;         // nullptr: a program of its own
  std::string_view program = {};  // of that program
  // Where a caller may give a source for a path: the first arguments, and these options.
  size_t sources = 1;
  std::vector<std::string_view> source_options = {};
};
std::span<const CommandWord> CommandWords();

// Where one stands in the list, by its name or its word; nullptr: there is none in the library.
const CommandWord* FindCommandWord(std::string_view name);

// By its name (nxd-convert) or its word (convert); nullptr: there is none in the library.
const Command* FindCommand(std::string_view name);

}  // namespace nxdkit::tool
