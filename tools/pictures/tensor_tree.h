// PRIVATE to tools/: tensors and their parts as the data of a page: a tree of names whose leaves
// refer to patterns, since the layers of a model are cut alike.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/artifact/slices.h"
#include "lib/json/json.h"

namespace nxdkit::tool {

struct TreeTensor {
  const artifact::TensorSlices* slices = nullptr;
  uint64_t bytes = 0;
  std::string_view group;  // what it is coloured by: "attention", "BF16"
};

// {"groups": [name, ...], "patterns": [...], "tree": [node, ...], "left_out": count}
//   node     [name, [node, ...]], or a leaf [name, pattern, names]
//   pattern  {"b": bytes, "g": group, "s": ends, "t": ends, "p": [[shape, head_rows, head_dim]],
//             "c": [[from, to, source box, target box, param, logical box]],
//             "f": [[to, box, value]]}
//   end      [file, dtype, shape]
//   box      [lo ..., extent ...]; 0: the whole
//   names    those of sources, targets and params in turn: 0 for the leaf's own, else [shared,
//            rest] for its first `shared` characters and then the rest; the last zeros are left out
// Names are escaped for people. Texts beyond `max_bytes` are left out, the smallest tensors first.
Json TensorTree(const std::vector<TreeTensor>& tensors, uint64_t max_bytes);

inline constexpr uint64_t kTreeBytes = 4'000'000;  // of a page that has to stay below 5 MB

}  // namespace nxdkit::tool
