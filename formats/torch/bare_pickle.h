// PRIVATE: a file that is one pickle without tensors, with an allow-list of its own.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "formats/torch/pickle_convert.h"
#include "formats/torch/pickle_globals.h"
#include "formats/torch/pickle_graph.h"
#include "formats/torch/pickle_value.h"

namespace nxdkit::torch {

// Plain containers, and records of the globals in `globals`. Nothing is executed: a global that is
// not on the list is kUnsupported, by name, at the offset in the pickle. So are tensors. kCorrupt
// for bytes after the pickle's end.
Result<PickleValue> ReadBarePickle(std::string_view pickle, const GlobalTable& globals);

// A pickle that is one record, whose attributes are read one at a time: each may be a dict of very
// many values, of which only one at a time is held as a tree.
class BareRecord {
 public:
  // kCorrupt for anything but a record of one of these classes, made without arguments, with a dict
  // as its state. `pickle` must outlive it.
  static Result<std::unique_ptr<BareRecord>> Read(std::string_view pickle,
                                                  const GlobalTable& globals,
                                                  std::span<const char* const> classes);

  // None for an attribute that is missing.
  Result<PickleValue> Value(std::string_view attribute);
  bool Has(std::string_view attribute) const;  // and is not None
  // The items of an attribute that is a dict, in its order; kCorrupt when it is not one.
  Status ForEach(std::string_view attribute, const ValueReader::OnItem& f);

 private:
  explicit BareRecord(std::string_view pickle) : graph_(pickle) {}
  std::optional<NodeId> Find(std::string_view attribute) const;

  PickleGraph graph_;
  NodeId state_ = 0;  // a dict
  std::unique_ptr<ValueReader> reader_;
};

}  // namespace nxdkit::torch
