// PRIVATE to tools/: tensors and their parts as the data of a page: a tree of names whose leaves
// refer to patterns, since the layers of a model are cut alike.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/artifact/slices.h"

namespace nxdkit::tool {

struct TreeTensor {
  const artifact::TensorSlices* slices = nullptr;
  uint64_t bytes = 0;
  std::string_view group;  // decides its colour: "attention", "BF16"
};

// The members of a JSON object:
//   "groups": [name, ...], "patterns": [...], "places": [...], "tree": [node, ...],
//   "brief": count, "others": [count, bytes]
//   node     [name, [node, ...]], or a leaf [name, pattern, place, names]
//   pattern  {"b": bytes, "g": group, "s": ends, "t": ends, "p": [[shape, head_rows, head_dim]],
//             "c": [[from, to, source box, target box, param, logical box]],
//             "f": [[to, box, value, is_padding]]}
//   end      [dtype, shape], of a source or a target
//   place    [files of the sources, files of the targets]
//   box      [lo ..., extent ...]; 0: the whole
//   names    runs [count, code] of sources, targets and params in turn: 0 for the leaf's name, 1
//            for the source's with the same index, else [shared, rest] for the leaf's first
//            `shared` characters and then the rest; a last run of 0 is left out
// Names are escaped for people, and shortened if they are very long. The text is at most
// `max_bytes` long in a page: where that is too little, the smallest tensors have a pattern without
// parts ("n" is their number; "brief" counts these tensors), and the smallest of all are "others".
std::string TreeMembers(const std::vector<TreeTensor>& tensors, uint64_t max_bytes);

inline constexpr size_t kPageData = 4'800'000;  // of a page that has to stay below 5 MB

// A JSON string of a name from a file, for a page.
std::string NameText(std::string_view name);

}  // namespace nxdkit::tool
