// The configuration of another trainer's run, taken over key by key: EasyR1's
// experiment_config.json, which its run leaves next to the checkpoints, and verl's
// .hydra/config.yaml, whose keys a table (inherit_verl.cc) maps to those here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/yaml/value.h"
#include "trainer/config/load.h"

namespace nxdkit::trainer {

struct InheritedKey {
  std::string theirs;
  std::string ours;  // "": no key here corresponds
  Value value;
  std::string left;  // the reason why it is not taken; "": it is
};

struct Inherited {
  std::string file;
  std::string program;  // "EasyR1", "verl"
  std::vector<InheritedKey> keys;
  size_t same = 0;    // values that are the default here too
  size_t others = 0;  // keys of that program without a counterpart
};

// The file in the first of `folders` that has one; nullopt if none has.
Result<std::optional<std::string>> FindInherited(const std::vector<std::string>& folders);

// kUnsupported if the file is from neither program.
Result<Inherited> ReadInherited(const std::string& file);

// A line for each key: either taken, or left with the reason.
std::vector<std::string> InheritedLines(const Inherited& inherited);

// Sets the keys taken that neither the file nor the command line sets.
void ApplyInherited(const Inherited& inherited, LoadedConfig& loaded);

}  // namespace nxdkit::trainer
