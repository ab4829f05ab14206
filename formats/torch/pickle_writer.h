// PRIVATE: a value as a pickle of protocol 2, byte for byte as Python's pickler under torch.save
// writes it. Nothing in it needs more than torch.load(weights_only=True) allows.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "formats/torch/pickle_value.h"
#include "lib/tensor/output.h"

namespace nxdkit::torch {

// TensorIndex i of the value stands for tensors[i], whose storage gets the key "i". A list or dict
// that is shared (the same object in two places), or a tensor used twice, is written once.
// kUnsupported: opaque objects, dtypes that torch cannot save, nesting over kMaxNesting.
Result<std::string> WritePickle(const PickleValue& root, const std::vector<OutputTensor>& tensors);

// A dict of very many items, of which only one at a time is held as a tree: `each` hands over
// `count` of them. A value that two items share is written in both.
struct DictSource {
  using Put = std::function<Status(const PickleValue& key, const PickleValue& value)>;
  size_t count = 0;
  std::function<Status(const Put& put)> each;
};

// A record made without arguments, with these attributes as its state, as BareRecord reads it.
using RecordAttribute = std::pair<std::string, std::variant<PickleValue, DictSource>>;
Result<std::string> WriteBareRecord(std::string_view class_name,
                                    const std::vector<RecordAttribute>& attributes);

}  // namespace nxdkit::torch
