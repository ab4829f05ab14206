// The tree of plain values in a torch archive's pickle: the result of our machine, and the input of
// our pickler. Nothing in it can execute.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lib/tensor/dtype.h"

namespace nxdkit::torch {

struct PickleValue;
using PickleList = std::vector<PickleValue>;
using PickleDict = std::vector<std::pair<PickleValue, PickleValue>>;  // insertion order

// A reference of torch_xla.utils.serialization to a tensor in "<main>.tensors/tensor_<tid>.pt".
struct TensorReference {
  int64_t tid = 0;
};
// Index into Archive::tensors (reading) or into the encoder's tensors (writing).
struct TensorIndex {
  size_t index = 0;
};
struct TorchSize {
  Shape dims;
};
// An allow-listed object without a meaning for us (torch.device, a layout, a qscheme...), kept by
// its qualified name so that it can be shown; the pickler refuses it.
struct OpaqueObject {
  std::string qualified_name;
};

// A class or function by its name, as an argument; only written.
struct GlobalName {
  std::string qualified_name;
};

struct PickleRecord;

struct PickleValue {
  struct None {};
  struct List {
    std::shared_ptr<PickleList> items;
  };  // shared: the memo may alias it
  struct Tuple {
    std::shared_ptr<PickleList> items;
  };
  struct Set {
    std::shared_ptr<PickleList> items;
  };
  struct Dict {
    std::shared_ptr<PickleDict> items;
    bool ordered = false;
  };  // ordered: OrderedDict
  struct Bytes {
    std::string bytes;
  };
  struct BigInt {
    std::string decimal;
  };  // LONG1/LONG4 outside of int64

  std::variant<None, bool, int64_t, double, std::string, Bytes, BigInt, List, Tuple, Set, Dict,
               Dtype, TorchSize, TensorIndex, TensorReference, OpaqueObject, GlobalName,
               std::shared_ptr<const PickleRecord>>
      value;

  static PickleValue MakeDict(PickleDict items);
  static PickleValue MakeList(PickleList items);
  static PickleValue MakeTuple(PickleList items);

  const PickleDict* dict() const;  // nullptr when it is something else; likewise below
  const PickleList* list() const;  // list or tuple
  const std::string* string() const;
  const int64_t* integer() const;
  std::optional<double> number() const;  // an integer or a floating point number
  const TensorIndex* tensor() const;
  const TensorReference* reference() const;
  const PickleRecord* record() const;
  // The value under a string key of a dict, or nullptr.
  const PickleValue* Find(std::string_view key) const;
};

// An object of a class on its reader's list, as plain data. Nothing of the class itself is known or
// run.
struct PickleRecord {
  // "torch.distributed.checkpoint.metadata.Metadata"; owned by the list.
  std::string_view name;
  bool called = false;  // made by a call (REDUCE), not by NEWOBJ
  PickleList arguments;
  std::optional<PickleValue> state;  // from BUILD
};

}  // namespace nxdkit::torch
