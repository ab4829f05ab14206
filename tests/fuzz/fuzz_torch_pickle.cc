// The pickle machine alone, so that no CRC stands between it and the fuzzer: a pickle that is read
// and written again must read as the same.
#include <cstdlib>
#include <string_view>
#include <unordered_map>

#include "formats/torch/pickle_convert.h"
#include "formats/torch/pickle_machine.h"
#include "formats/torch/pickle_writer.h"

namespace nxdkit::torch {
namespace {

// The compared properties of two trees: the number of values, and of each kind. A list or dict in
// many places is counted once.
class Fingerprint {
 public:
  size_t Of(const PickleValue& value) {
    if (const PickleDict* dict = value.dict()) return Known(dict, value);
    if (const PickleList* list = value.list()) return Known(list, value);
    return Look(value);
  }

 private:
  size_t Known(const void* items, const PickleValue& value) {
    if (const auto it = known_.find(items); it != known_.end()) return it->second;
    const size_t print = Look(value);
    known_.emplace(items, print);
    return print;
  }

  size_t Look(const PickleValue& value) {
    size_t print = value.value.index() + 1;
    if (const PickleDict* dict = value.dict())
      for (const auto& [key, item] : *dict) print = print * 31 + Of(key) * 7 + Of(item);
    if (const PickleList* list = value.list())
      for (const PickleValue& item : *list) print = print * 31 + Of(item);
    if (const std::string* text = value.string()) print = print * 31 + text->size();
    if (const int64_t* number = value.integer()) print = print * 31 + static_cast<size_t>(*number);
    if (const TensorReference* reference = value.reference())
      print = print * 31 + static_cast<size_t>(reference->tid);
    return print;
  }

  std::unordered_map<const void*, size_t> known_;
};

Result<PickleValue> Read(PickleGraph& graph, PickleFlavor flavor) {
  NXDKIT_ASSIGN(const PickleResult result, RunPickle(graph, flavor));
  if (result.bytes > graph.pickle().size() || result.root >= graph.size()) std::abort();
  return ToValue(graph, result.root);
}

void WriteAndReadAgain(const PickleValue& value, const PickleGraph& graph) {
  std::vector<OutputTensor> tensors;
  for (const StoredTensor& tensor : graph.tensors)
    tensors.push_back({"", tensor.dtype, tensor.shape});
  const Result<std::string> pickle = WritePickle(value, tensors);
  if (!pickle.ok()) return;  // an opaque object, or a tensor that was built and dropped
  PickleGraph again(*pickle);
  const Result<PickleValue> copy = Read(again, PickleFlavor::kZip);
  // The copy may share less text, and so have a lower limit of visits: a refusal is all right.
  if (!copy.ok() && copy.error().code() != Errc::kUnsupported) std::abort();
  if (copy.ok() && Fingerprint().Of(*copy) != Fingerprint().Of(value)) std::abort();
}

}  // namespace
}  // namespace nxdkit::torch

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nxdkit::torch;
  const std::string_view pickle(reinterpret_cast<const char*>(data), size);
  for (const PickleFlavor flavor : {PickleFlavor::kZip, PickleFlavor::kLegacy}) {
    PickleGraph graph(pickle);
    const nxdkit::Result<PickleValue> value = Read(graph, flavor);
    if (value.ok()) WriteAndReadAgain(*value, graph);
  }
  return 0;
}
