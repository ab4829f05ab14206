// A configuration for people, for experiment_config.json and for the docs.
#pragma once

#include <string>

#include "trainer/config/config.h"
#include "trainer/config/load.h"

namespace nxdkit::trainer {

// The merged configuration as YAML, every key with its source in a comment: "# default", "#
// config.yaml:12", "# command line", "# derived". Reading it again with LoadConfig gives the same
// configuration.
std::string PrintConfig(const LoadedConfig& loaded);

// Nested JSON of all settable keys, indented by 2, in the order of the table.
std::string ConfigJson(const Config& config);

// The table of README.md: a Markdown row per key, "key | type | default | meaning".
std::string ConfigKeyTable();

}  // namespace nxdkit::trainer
