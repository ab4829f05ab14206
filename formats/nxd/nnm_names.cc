#include "formats/nxd/nnm_names.h"

#include <algorithm>
#include <map>
#include <optional>

#include "lib/base/text.h"

namespace nxdkit::nxd {
namespace {

struct LayerNumber {
  size_t at = 0;  // position of its digits in the name
  size_t size = 0;
  int64_t layer = 0;
};

// The first component of the name that is a number.
std::optional<LayerNumber> FindLayer(std::string_view name) {
  size_t begin = 0;
  while (begin < name.size()) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const auto layer = ParseNumber<int64_t>(name.substr(begin, end - begin));
    if (layer && *layer >= 0 && *layer < 1'000'000) return LayerNumber{begin, end - begin, *layer};
    begin = end + 1;
  }
  return std::nullopt;
}

int64_t LayersOn(const Shard& shard) {
  int64_t layers = 0;
  for (const StoredTensor& tensor : shard.tensors.tensors)
    if (const auto number = FindLayer(tensor.name)) layers = std::max(layers, number->layer + 1);
  return layers;
}

}  // namespace

void RenameNnm(std::vector<Shard>& shards) {
  std::map<int, int64_t> layers;  // by pipeline rank
  for (const Shard& shard : shards) {
    int64_t& most = layers[shard.file.pp];
    most = std::max(most, LayersOn(shard));
  }
  std::map<int, int64_t> first;
  int64_t next = 0;
  for (const auto& [pp, count] : layers) {
    first[pp] = next;
    next += count;
  }
  for (Shard& shard : shards) {
    for (StoredTensor& tensor : shard.tensors.tensors) {
      if (tensor.name.starts_with("model.language_model.")) tensor.name.erase(0, 6);
      if (const auto number = FindLayer(tensor.name))
        tensor.name.replace(number->at, number->size,
                            std::to_string(number->layer + first[shard.file.pp]));
    }
  }
}

}  // namespace nxdkit::nxd
