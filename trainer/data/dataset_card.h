// PRIVATE to trainer/data. The splits described by the README.md of a data set of the hub.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::trainer {

struct CardSplit {
  std::string split;
  std::vector<std::string> patterns;  // of paths below the folder: "data/train-*"
};

// The splits of the configuration named "default", or of the only one; empty without a card, or if
// it lists none. Source: the YAML between two lines of "---", `configs`, as the hub writes it:
//
//   configs:
//   - config_name: default
//     data_files:
//     - split: train
//       path: data/train-*
//
// kUnsupported for several configurations without a default.
Result<std::vector<CardSplit>> SplitsOfCard(const std::string& folder);

// The split that a path below the folder belongs to.
std::optional<std::string_view> SplitOfCard(const std::vector<CardSplit>& card,
                                            const std::string& path);

}  // namespace nxdkit::trainer
