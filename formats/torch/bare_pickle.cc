#include "formats/torch/bare_pickle.h"

#include "formats/torch/pickle_convert.h"
#include "formats/torch/pickle_machine.h"
#include "lib/base/errors.h"

namespace nxdkit::torch {

Result<PickleValue> ReadBarePickle(std::string_view pickle, const GlobalTable& globals) {
  PickleGraph graph(pickle);
  NXDKIT_ASSIGN(const PickleResult run, RunPickle(graph, PickleFlavor::kZip, globals));
  if (!graph.storages.empty())
    return Unsupported("the pickle names a storage of a tensor, and there are none beside it")
        .at(graph.storages.front().pickle_offset);
  if (run.bytes != pickle.size())
    return Corrupt("{} bytes after the end of the pickle", pickle.size() - run.bytes).at(run.bytes);
  return ToValue(graph, run.root);
}

}  // namespace nxdkit::torch
