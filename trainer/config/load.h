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
  std::string key;      // full path; "" when it is about no key
  std::string message;  // with its numbers
  std::string fix;      // what to do about it; may be empty
  std::string place;    // "config.yaml line 12 column 5", "command line: a.b=c"; may be empty
};

// One error of all problems (at least one), in their order: a single one is its own message with
// its key as member; of several the first three are numbered, one a line, below their count:
// "[2] config.yaml line 12 column 5: worker.actor.optim.lr: MESSAGE; FIX". The code is that of the
// first.
Error ProblemsError(const std::vector<ConfigProblem>& problems);

enum class SourceKind { kDefault, kFile, kOverride, kMachine };

// Who set a key last.
struct ConfigSource {
  SourceKind kind = SourceKind::kDefault;
  Place place;                // kFile
  std::string override_text;  // kOverride: as given; kMachine: the option or variable
};

struct Inherited;  // inherit.h

struct LoadedConfig {
  Config config;
  std::string path;                   // of the file; "" when there is none
  std::vector<ConfigSource> sources;  // [ConfigKeys().size()]
  // How what it says was taken, where that is not as it is written: names of earlier releases.
  std::vector<std::string> notes;

  const ConfigSource& SourceOf(std::string_view key) const;  // a default for other names
  // "config.yaml line 12 column 5", "command line: a.b=c", "NEURON_RT_VISIBLE_CORES=0-7", "default"
  std::string PlaceOf(std::string_view key) const;

  // trainer.cores, where neither the file nor an override says it.
  void SetCores(int64_t cores, const std::string& from);
};

// `path` "": no file. The value of an override is YAML: "{n: 1, temperature: 0.6}", '["file"]';
// `config=FILE` among them names the file when `path` is "". Keys of an open map can be set by
// themselves: worker.reward.reward_function_kwargs.format_weight=0.2. All unknown keys and wrong
// types are reported together (ProblemsError), with file, line, column and the nearest key there
// is; a text that is not YAML is an error of its own (see ParseYaml), and so is
// the configuration of another program (other_programs.h).
//
// ${a.b} is the value of that key (interpolate.h), names of EasyR1's earlier releases are those of
// today (old_names.h), a path is as in a shell (lib/system/user_path.h), and an element type has
// any of its names.
// `inherited`: keys of another run, in the place of defaults.
Result<LoadedConfig> LoadConfig(const std::string& path, std::span<const std::string> overrides,
                                const Inherited* inherited = nullptr);

// The same of a text that was read already; `path` is for messages only.
Result<LoadedConfig> LoadConfigText(std::string_view yaml, const std::string& path,
                                    std::span<const std::string> overrides,
                                    const Inherited* inherited = nullptr);

}  // namespace nxdkit::trainer
