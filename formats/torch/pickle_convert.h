// PRIVATE: from the machine's arena of nodes to the tree that callers see.
#pragma once

#include <functional>
#include <memory>

#include "formats/torch/pickle_graph.h"
#include "formats/torch/pickle_value.h"

namespace nxdkit::torch {

// Values nested deeper than this are refused: whoever walks the tree, and the destructor of the
// tree itself, may recurse.
inline constexpr int kMaxNesting = 500;

// A list or dict that the pickle names twice is one shared list or dict in the tree. Refused
// (kUnsupported): cycles; nesting over kMaxNesting; so much sharing that a walk of the tree would
// visit far more than the pickle has bytes; bare storages. kCorrupt: a dict with a key twice, or
// with a key that cannot be one; a reference that was never given its tid.
Result<PickleValue> ToValue(const PickleGraph& graph, NodeId root);

// The same, value by value: of a dict with very many, a tree of all takes more memory than what its
// reader makes of it. What is refused, and the bound on sharing, are as for all of them together.
class ValueReader {
 public:
  explicit ValueReader(const PickleGraph& graph);
  ~ValueReader();
  ValueReader(const ValueReader&) = delete;
  ValueReader& operator=(const ValueReader&) = delete;

  Result<PickleValue> Read(NodeId id);
  // The items of a dict, in its order, until `f` fails. kCorrupt for a key that is there twice.
  using OnItem = std::function<Status(const PickleValue& key, const PickleValue& value)>;
  Status ForEach(NodeId dict, const OnItem& f);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nxdkit::torch
