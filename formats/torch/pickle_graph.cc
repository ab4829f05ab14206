#include "formats/torch/pickle_graph.h"

#include <algorithm>
#include <array>
#include <bit>

#include "lib/base/errors.h"

namespace nxdkit::torch {

const char* KindName(NodeKind kind) {
  constexpr auto kNames = std::to_array<const char*>(
      {"None", "bool", "int", "float", "str", "bytes", "bytes", "int over 64 bits", "tuple", "list",
       "set", "dict", "OrderedDict",
       // Objects.
       "global", "object", "torch.Size", "storage", "tensor", "tensor reference", "record"});
  static_assert(kNames.size() == static_cast<size_t>(NodeKind::kRecord) + 1);
  return kNames[static_cast<size_t>(kind)];
}

// A tensor takes some 250 bytes of the pickle and 25 nodes.
PickleGraph::PickleGraph(std::string_view pickle) : pickle_(pickle) {
  nodes_.reserve(std::min<size_t>(pickle.size() / 8, 1 << 22));
  storage_by_key_.reserve(std::min<size_t>(pickle.size() / 256, 1 << 18));
}

NodeId PickleGraph::Add(NodeKind kind, uint32_t count, uint64_t payload) {
  // The machine stops at kMaxNodes, long before.
  NXDKIT_CHECK(nodes_.size() < kNoNode);
  nodes_.push_back({kind, count, payload});
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId PickleGraph::Shared(NodeId& id, NodeKind kind, uint64_t payload) {
  if (id == kNoNode) id = Add(kind, 0, payload);
  return id;
}

NodeId PickleGraph::Float(double value) {
  return Add(NodeKind::kFloat, 0, std::bit_cast<uint64_t>(value));
}
double PickleGraph::AsFloat(NodeId id) const { return std::bit_cast<double>(nodes_[id].payload); }

NodeId PickleGraph::Text(NodeKind kind, std::string_view text) {
  const auto offset = static_cast<uint64_t>(text.data() - pickle_.data());
  return Add(kind, static_cast<uint32_t>(text.size()), text.empty() ? 0 : offset);
}

NodeId PickleGraph::OwnedBytes(std::string bytes) {
  owned_.push_back(std::move(bytes));
  return Add(NodeKind::kOwnedBytes, 0, owned_.size() - 1);
}

std::string_view PickleGraph::AsText(NodeId id) const {
  const Node& node = nodes_[id];
  if (node.kind == NodeKind::kOwnedBytes) return owned_[node.payload];
  return pickle_.substr(node.payload, node.count);
}

NodeId PickleGraph::Tuple(std::span<const NodeId> items) {
  const size_t begin = tuple_items_.size();
  tuple_items_.insert(tuple_items_.end(), items.begin(), items.end());
  return Add(NodeKind::kTuple, static_cast<uint32_t>(items.size()), begin);
}

std::span<const NodeId> PickleGraph::TupleItems(NodeId id) const {
  const Node& node = nodes_[id];
  if (node.kind == NodeKind::kSize) return TupleItems(static_cast<NodeId>(node.payload));
  return std::span(tuple_items_).subspan(node.payload, node.count);
}

NodeId PickleGraph::Container(NodeKind kind) {
  containers_.emplace_back();
  return Add(kind, 0, containers_.size() - 1);
}

NodeId PickleGraph::OfGlobal(NodeKind kind, const Global* global) {
  globals_.push_back(global);
  return Add(kind, 0, globals_.size() - 1);
}

NodeId PickleGraph::Storage(const StorageRef& ref) {
  storage_refs_.push_back(ref);
  return Add(NodeKind::kStorage, 0, storage_refs_.size() - 1);
}

NodeId PickleGraph::Record(const Global* global, NodeId arguments, bool called) {
  records_.push_back({global, arguments, called, std::nullopt});
  return Add(NodeKind::kRecord, 0, records_.size() - 1);
}

NodeId PickleGraph::Tensor(StoredTensor tensor, uint32_t storage) {
  tensors.push_back(std::move(tensor));
  tensor_storages.push_back(storage);
  return Add(NodeKind::kTensor, 0, tensors.size() - 1);
}

Result<uint32_t> PickleGraph::Claim(std::string_view key, uint64_t bytes, int64_t element_bytes,
                                    uint64_t pickle_offset) {
  const auto [entry, added] = storage_by_key_.emplace(key, static_cast<uint32_t>(storages.size()));
  if (added) {
    storages.push_back({key, bytes, element_bytes, pickle_offset});
  } else if (storages[entry->second].bytes != bytes) {
    return Corrupt("storage \"{}\" has {} bytes here, and {} bytes at offset {}", key, bytes,
                   storages[entry->second].bytes, storages[entry->second].pickle_offset);
  }
  return entry->second;
}

std::optional<int64_t> PickleGraph::Tid(NodeId id) const {
  if (nodes_[id].payload == kNoTid) return std::nullopt;
  return static_cast<int64_t>(nodes_[id].payload);
}

}  // namespace nxdkit::torch
