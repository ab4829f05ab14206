// Defaults, then a YAML file, then "a.b.c=value" overrides, merged into a Config.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/config/config.h"

namespace nxdkit::trainer {

struct ConfigProblem {
  Errc code = Errc::kUsage;
  std::string key;      // full path; "" when it is not about one key
  std::string message;  // with its numbers
  std::string fix;      // the suggested change; may be empty
  std::string place;    // "config.yaml line 12 column 5", "command line: a.b=c"; may be empty
};

// One error for all problems (at least one), in order: a single one is its own message with its key
// as member; with several, their count is followed by the first three, numbered, one per line: "[2]
// config.yaml line 12 column 5: worker.actor.optim.lr: MESSAGE; FIX". The code is that of the
// first.
Error ProblemsError(const std::vector<ConfigProblem>& problems);

enum class SourceKind { kDefault, kFile, kOverride, kMachine };

// The source that set a key last.
struct ConfigSource {
  SourceKind kind = SourceKind::kDefault;
  Place place;                // kFile
  std::string override_text;  // kOverride: as given; kMachine: the option or variable
};

struct Inherited;  // inherit.h

struct LoadedConfig {
  Config config;
  std::string path;                   // of the file; "" if there is none
  std::vector<ConfigSource> sources;  // [ConfigKeys().size()]
  // Values that were not taken as written, and how: names of earlier releases.
  std::vector<std::string> notes;

  const ConfigSource& SourceOf(std::string_view key) const;  // a default for other names
  // "config.yaml line 12 column 5", "command line: a.b=c", "NEURON_RT_VISIBLE_CORES=0-7", "default"
  std::string PlaceOf(std::string_view key) const;

  // Sets trainer.cores if neither the file nor an override does.
  void SetCores(int64_t cores, const std::string& from);
};

// `path` "" means no file. The value of an override is YAML: "{n: 1, temperature: 0.6}",
// '["file"]'; `config=FILE` among them names the file when `path` is "". Keys of an open map can be
// set by themselves: worker.reward.reward_function_kwargs.format_weight=0.2. All unknown keys and
// wrong types are reported together (ProblemsError), with file, line, column and the nearest valid
// key; text that is not YAML is a separate error (see ParseYaml), and so is the configuration of
// another program (other_programs.h).
//
// ${a.b} is the value of that key (interpolate.h), names of EasyR1's earlier releases map to
// today's (old_names.h), paths are expanded as in a shell (lib/system/user_path.h), and an element
// type may have any of its names. `inherited`: keys of another run, which replace defaults.
Result<LoadedConfig> LoadConfig(const std::string& path, std::span<const std::string> overrides,
                                const Inherited* inherited = nullptr);

// The same for text that was already read; `path` is for messages only.
Result<LoadedConfig> LoadConfigText(std::string_view yaml, const std::string& path,
                                    std::span<const std::string> overrides,
                                    const Inherited* inherited = nullptr);

}  // namespace nxdkit::trainer
