// PRIVATE: converts the machine's arena of nodes to the tree that callers see.
#pragma once

#include <functional>
#include <memory>

#include "formats/torch/pickle_graph.h"
#include "formats/torch/pickle_value.h"

namespace nxdkit::torch {

// Values nested deeper are refused: code that walks the tree, and the tree's own destructor, may
// recurse.
inline constexpr int kMaxNesting = 500;

// A list or dict that the pickle names twice is one shared list or dict in the tree. Refused
// (kUnsupported): cycles; nesting over kMaxNesting; so much sharing that a walk of the tree would
// visit far more values than the pickle has bytes; bare storages. kCorrupt: a dict with a key
// twice, or with a key that cannot be one; a reference that was never given its tid.
Result<PickleValue> ToValue(const PickleGraph& graph, NodeId root);

// ToValue, value by value: the tree of a whole dict with very many values takes more memory than
// its reader's result. Refusals, and the bound on sharing, are as for ToValue.
class ValueReader {
 public:
  explicit ValueReader(const PickleGraph& graph);
  ~ValueReader();
  ValueReader(const ValueReader&) = delete;
  ValueReader& operator=(const ValueReader&) = delete;

  Result<PickleValue> Read(NodeId id);
  // Calls `f` for the items of a dict, in order, until it fails. kCorrupt for a key that occurs
  // twice.
  using OnItem = std::function<Status(const PickleValue& key, const PickleValue& value)>;
  Status ForEach(NodeId dict, const OnItem& f);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nxdkit::torch
