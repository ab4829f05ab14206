// The configuration of another trainer's run, taken over key by key: EasyR1's
// experiment_config.json, which its run leaves beside the checkpoints, and verl's
// .hydra/config.yaml, of which a table (inherit_verl.cc) says what the keys are here.
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
  std::string ours;  // "": no key here is like it
  Value value;
  std::string left;  // why it is not taken; "": it is
};

struct Inherited {
  std::string file;
  std::string program;  // "EasyR1", "verl"
  std::vector<InheritedKey> keys;
  size_t same = 0;    // what is the default here too
  size_t others = 0;  // keys of their own that have no counterpart
};

// The file in the first of `folders` that has one; nullopt: none has.
Result<std::optional<std::string>> FindInherited(const std::vector<std::string>& folders);

// kUnsupported where the file is of neither program.
Result<Inherited> ReadInherited(const std::string& file);

// A line for each key: what is taken, and what is left and why.
std::vector<std::string> InheritedLines(const Inherited& inherited);

// Sets the keys that are taken, where neither the file nor the command line says them.
void ApplyInherited(const Inherited& inherited, LoadedConfig& loaded);

}  // namespace nxdkit::trainer
