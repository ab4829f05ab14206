// PRIVATE: the result of the pickle machine: nodes in one arena, by number. A cycle does no harm
// here, and nothing recurses; pickle_convert.h turns the part that is reachable from the root into
// a tree.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/torch/pickle_globals.h"
#include "lib/tensor/dtype.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::torch {

using NodeId = uint32_t;

enum class NodeKind : uint8_t {
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kBytes,
  kOwnedBytes,
  kBigInt,
  kTuple,
  kList,
  kSet,
  kDict,
  kOrderedDict,
  kGlobal,
  kOpaque,
  kSize,
  kStorage,
  kTensor,
  kReference,
  kRecord,
};
const char* KindName(NodeKind kind);  // for messages: "list"

// The storage that a persistent id names. A view (legacy files only) begins `base` bytes into the
// storage.
struct StorageRef {
  uint32_t storage = 0;  // index into PickleGraph::storages
  uint64_t base = 0;
  uint64_t bytes = 0;
  std::optional<Dtype> dtype;  // nullopt: untyped, the tensor brings its dtype
};

// A storage of the file, as the pickle claims it.
struct StorageClaim {
  std::string_view key;  // "0": the record data/0; points into the pickle
  uint64_t bytes = 0;
  int64_t element_bytes = 1;  // of the class with which it was first named
  uint64_t pickle_offset = 0;
};

class PickleGraph {
 public:
  // `pickle` must outlive the graph: strings point into it.
  explicit PickleGraph(std::string_view pickle);

  NodeKind kind(NodeId id) const { return nodes_[id].kind; }
  const char* kind_name(NodeId id) const { return KindName(kind(id)); }
  size_t size() const { return nodes_.size(); }
  size_t containers() const { return containers_.size(); }
  std::string_view pickle() const { return pickle_; }

  NodeId None() { return Shared(none_, NodeKind::kNone, 0); }
  NodeId Bool(bool value) { return Shared(value ? true_ : false_, NodeKind::kBool, value); }
  NodeId Int(int64_t value) { return Add(NodeKind::kInt, 0, static_cast<uint64_t>(value)); }
  NodeId Float(double value);
  // kString, kBytes or kBigInt: `text` must point into the pickle.
  NodeId Text(NodeKind kind, std::string_view text);
  NodeId OwnedBytes(std::string bytes);
  NodeId Tuple(std::span<const NodeId> items);
  NodeId Container(NodeKind kind);                       // empty list, set or dict
  NodeId OfGlobal(NodeKind kind, const Global* global);  // kGlobal or kOpaque
  NodeId Size(NodeId tuple) { return Add(NodeKind::kSize, 0, tuple); }
  NodeId Storage(const StorageRef& ref);
  NodeId Tensor(StoredTensor tensor, uint32_t storage);
  // `called`: the result of a call (REDUCE); otherwise an object made by NEWOBJ.
  NodeId Record(const Global* global, NodeId arguments, bool called);
  NodeId Reference(bool internal) { return Add(NodeKind::kReference, internal, kNoTid); }

  bool AsBool(NodeId id) const { return nodes_[id].payload != 0; }
  int64_t AsInt(NodeId id) const { return static_cast<int64_t>(nodes_[id].payload); }
  double AsFloat(NodeId id) const;
  std::string_view AsText(NodeId id) const;             // kString, kBytes, kOwnedBytes, kBigInt
  std::span<const NodeId> TupleItems(NodeId id) const;  // kTuple; kSize gives those of its tuple
  // The items of a list or set; for a dict: key, value, key, value...
  const std::vector<NodeId>& Items(NodeId id) const { return containers_[nodes_[id].payload]; }
  std::vector<NodeId>& Items(NodeId id) { return containers_[nodes_[id].payload]; }
  const Global& AsGlobal(NodeId id) const { return *globals_[nodes_[id].payload]; }  // or kOpaque
  const StorageRef& AsStorage(NodeId id) const { return storage_refs_[nodes_[id].payload]; }
  size_t AsTensor(NodeId id) const { return nodes_[id].payload; }

  struct RecordParts {
    const Global* global = nullptr;
    NodeId arguments = 0;  // a tuple
    bool called = false;
    std::optional<NodeId> state;  // set by BUILD
  };
  const RecordParts& AsRecord(NodeId id) const { return records_[nodes_[id].payload]; }
  void SetState(NodeId id, NodeId state) { records_[nodes_[id].payload].state = state; }

  // References: the tid is set by BUILD; nullopt before.
  bool IsInternalReference(NodeId id) const { return nodes_[id].count != 0; }
  std::optional<int64_t> Tid(NodeId id) const;
  void SetTid(NodeId id, int64_t tid) { nodes_[id].payload = static_cast<uint64_t>(tid); }

  // Some instructions copy a whole list, string or shape, which the pickle may hold only once.
  // Honest pickles copy each one time; false when more has been copied than the pickle has bytes.
  bool PayForCopy(size_t count) { return (copied_ += count) <= pickle_.size(); }

  // The number of the storage with this key, which is added to `storages` when new. kCorrupt when
  // the pickle claimed another size for it before.
  Result<uint32_t> Claim(std::string_view key, uint64_t bytes, int64_t element_bytes,
                         uint64_t pickle_offset);

  // Tensors in the order built; tensors[i].storage is null, and is to be filled with the storage
  // storages[tensor_storages[i]].
  std::vector<StoredTensor> tensors;
  std::vector<uint32_t> tensor_storages;
  std::vector<StorageClaim> storages;

 private:
  static constexpr uint64_t kNoTid = UINT64_MAX;
  static constexpr NodeId kNoNode = UINT32_MAX;

  struct Node {
    NodeKind kind;
    uint32_t count;
    uint64_t payload;
  };
  static_assert(sizeof(Node) == 16);

  NodeId Add(NodeKind kind, uint32_t count, uint64_t payload);
  NodeId Shared(NodeId& id, NodeKind kind, uint64_t payload);

  std::string_view pickle_;
  std::vector<Node> nodes_;
  std::vector<NodeId> tuple_items_;  // of all tuples, one after another
  std::vector<std::vector<NodeId>> containers_;
  std::vector<std::string> owned_;
  std::vector<const Global*> globals_;
  std::vector<StorageRef> storage_refs_;
  std::vector<RecordParts> records_;
  NodeId none_ = kNoNode;
  NodeId true_ = kNoNode;
  NodeId false_ = kNoNode;
  size_t copied_ = 0;
  std::unordered_map<std::string_view, uint32_t> storage_by_key_;
};

}  // namespace nxdkit::torch
