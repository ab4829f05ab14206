#include "formats/torch/pickle_convert.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "formats/torch/pickle_numbers.h"
#include "lib/base/errors.h"

namespace nxdkit::torch {
namespace {

// The limit of a walk of the tree: 64 values or bytes of text for every byte of the pickle. Sharing
// in real files is small (a name, an empty dict); nested sharing grows by powers of two.
constexpr uint64_t kMaxVisitsPerByte = 64;
constexpr uint64_t kFreeVisits = 16 << 20;

// A converted node, and the cost of walking it.
struct Converted {
  PickleValue value;
  uint64_t visits = 1;  // values and bytes of text, including those below
  int height = 0;       // levels of containers below
};

bool IsContainer(NodeKind kind) {
  return kind == NodeKind::kTuple || kind == NodeKind::kList || kind == NodeKind::kSet ||
         kind == NodeKind::kDict || kind == NodeKind::kOrderedDict || kind == NodeKind::kRecord;
}

Error TooDeep() { return Unsupported("values are nested more than {} levels deep", kMaxNesting); }

Converted Leaf(decltype(PickleValue::value) value, uint64_t visits = 1) {
  return {PickleValue{std::move(value)}, visits, 0};
}

Converted OfGlobal(const Global& global) {
  if (global.kind == GlobalKind::kDtype) return Leaf(global.dtype);
  return Leaf(OpaqueObject{global.name});
}

// Which values are, or may be, named more than once: only these are kept after their conversion.
class Sharing {
 public:
  explicit Sharing(const PickleGraph& graph) : seen_(graph.size()), again_(graph.size()) {
    for (NodeId id = 0; id < graph.size(); ++id) Count(graph, id);
  }
  bool IsShared(NodeId id) const { return again_[id]; }

 private:
  void Count(const PickleGraph& graph, NodeId id) {
    const NodeKind kind = graph.kind(id);
    if (kind == NodeKind::kTuple) return See(graph.TupleItems(id));
    if (kind == NodeKind::kRecord) {
      const PickleGraph::RecordParts& parts = graph.AsRecord(id);
      See(std::span(&parts.arguments, 1));
      // The converter takes the arguments apart without looking at the tuple.
      See(graph.TupleItems(parts.arguments));
      if (parts.state) See(std::span(&*parts.state, 1));
      return;
    }
    if (IsContainer(kind)) See(graph.Items(id));
  }

  void See(std::span<const NodeId> ids) {
    for (const NodeId id : ids) {
      again_[id] = again_[id] || seen_[id];
      seen_[id] = true;
    }
  }

  std::vector<bool> seen_;
  std::vector<bool> again_;
};

class Converter {
 public:
  explicit Converter(const PickleGraph& graph)
      : graph_(graph),
        sharing_(graph),
        max_visits_(kFreeVisits + kMaxVisitsPerByte * graph.pickle().size()) {}

  Result<Converted> Convert(NodeId id, int depth) {
    const NodeKind kind = graph_.kind(id);
    if (IsContainer(kind)) return ConvertContainer(id, depth);
    if (kind == NodeKind::kBool) return Leaf(graph_.AsBool(id));
    if (kind == NodeKind::kInt) return Leaf(graph_.AsInt(id));
    if (kind == NodeKind::kFloat) return Leaf(graph_.AsFloat(id));
    if (kind == NodeKind::kSize) return ConvertSize(id);
    if (kind == NodeKind::kTensor) return Leaf(TensorIndex{graph_.AsTensor(id)});
    if (kind == NodeKind::kReference) return ConvertReference(id);
    if (kind == NodeKind::kGlobal || kind == NodeKind::kOpaque)
      return OfGlobal(graph_.AsGlobal(id));
    if (kind == NodeKind::kStorage)
      return Unsupported("the file holds a bare storage, outside of any tensor")
          .at(graph_.storages[graph_.AsStorage(id).storage].pickle_offset);
    if (kind == NodeKind::kNone) return Leaf(PickleValue::None{});
    std::string text(graph_.AsText(id));
    const uint64_t visits = 1 + text.size();
    if (kind == NodeKind::kString) return Leaf(std::move(text), visits);
    if (kind != NodeKind::kBigInt) return Leaf(PickleValue::Bytes{std::move(text)}, visits);
    std::string decimal = LongToDecimal(text);
    const uint64_t cost = decimal.size() * kMaxLongBytes;  // of the conversion
    return Leaf(PickleValue::BigInt{std::move(decimal)}, cost);
  }

  Status CheckVisits(uint64_t visits) const {
    if (visits <= max_visits_) return OkStatus();
    return Unsupported(
        "the values are shared so often that a walk over them would visit more than {} of them",
        max_visits_);
  }

  // Python lets a later pair replace an earlier one with an equal key. No pickler writes such a
  // dict, and two readers that disagree on which pair counts would see two different files.
  Status CheckKeys(const std::vector<NodeId>& items) const {
    std::unordered_set<std::string_view> names;
    std::unordered_set<int64_t> numbers;
    for (size_t i = 0; i < items.size(); i += 2) {
      const NodeKind kind = graph_.kind(items[i]);
      if (kind == NodeKind::kList || kind == NodeKind::kSet || kind == NodeKind::kDict ||
          kind == NodeKind::kOrderedDict)
        return Corrupt("a {} as the key of a dict", KindName(kind));
      if (kind == NodeKind::kString && !names.insert(graph_.AsText(items[i])).second)
        return Corrupt("a dict has the key \"{}\" twice", graph_.AsText(items[i]));
      if (kind == NodeKind::kInt && !numbers.insert(graph_.AsInt(items[i])).second)
        return Corrupt("a dict has the key {} twice", graph_.AsInt(items[i]));
    }
    return OkStatus();
  }

 private:
  Status AddChild(Converted& parent, const Converted& child) const {
    parent.height = std::max(parent.height, child.height + 1);
    parent.visits += child.visits;
    return CheckVisits(parent.visits);
  }

  Result<Converted> ConvertItems(NodeId id, std::span<const NodeId> items, int depth) {
    Converted out;
    auto list = std::make_shared<PickleList>();
    list->reserve(items.size());
    for (const NodeId item : items) {
      NXDKIT_ASSIGN(Converted child, Convert(item, depth + 1));
      NXDKIT_TRY(AddChild(out, child));
      list->push_back(std::move(child.value));
    }
    if (graph_.kind(id) == NodeKind::kTuple)
      out.value.value = PickleValue::Tuple{std::move(list)};
    else if (graph_.kind(id) == NodeKind::kSet)
      out.value.value = PickleValue::Set{std::move(list)};
    else
      out.value.value = PickleValue::List{std::move(list)};
    return out;
  }

  Result<Converted> ConvertDict(NodeId id, int depth) {
    const std::vector<NodeId>& items = graph_.Items(id);
    NXDKIT_TRY(CheckKeys(items));
    Converted out;
    auto dict = std::make_shared<PickleDict>();
    dict->reserve(items.size() / 2);
    for (size_t i = 0; i < items.size(); i += 2) {
      NXDKIT_ASSIGN(Converted key, Convert(items[i], depth + 1));
      NXDKIT_ASSIGN(Converted value, Convert(items[i + 1], depth + 1));
      NXDKIT_TRY(AddChild(out, key));
      NXDKIT_TRY(AddChild(out, value));
      dict->emplace_back(std::move(key.value), std::move(value.value));
    }
    out.value.value = PickleValue::Dict{std::move(dict), graph_.kind(id) == NodeKind::kOrderedDict};
    return out;
  }

  Result<Converted> ConvertRecord(NodeId id, int depth) {
    const PickleGraph::RecordParts& parts = graph_.AsRecord(id);
    Converted out;
    auto record = std::make_shared<PickleRecord>();
    record->name = parts.global->name;
    record->called = parts.called;
    const auto add = [&](NodeId child) -> Result<PickleValue> {
      NXDKIT_ASSIGN(Converted made, Convert(child, depth + 1));
      NXDKIT_TRY(AddChild(out, made));
      return std::move(made.value);
    };
    for (const NodeId argument : graph_.TupleItems(parts.arguments)) {
      NXDKIT_ASSIGN(PickleValue value, add(argument));
      record->arguments.push_back(std::move(value));
    }
    if (parts.state) NXDKIT_TRY(add(*parts.state).To(record->state));
    out.value.value = std::shared_ptr<const PickleRecord>(std::move(record));
    return out;
  }

  Result<Converted> ConvertContainer(NodeId id, int depth) {
    const bool shared = sharing_.IsShared(id);
    if (const auto found = shared ? done_.find(id) : done_.end(); found != done_.end()) {
      if (depth + found->second.height > kMaxNesting) return TooDeep();
      return found->second;
    }
    if (depth > kMaxNesting) return TooDeep();
    if (!open_.insert(id).second)
      return Unsupported("a {} that contains itself", graph_.kind_name(id));
    const NodeKind kind = graph_.kind(id);
    Result<Converted> out = ConvertOpen(id, kind, depth);
    open_.erase(id);
    if (out.ok() && shared) done_.emplace(id, *out);
    return out;
  }

  Result<Converted> ConvertOpen(NodeId id, NodeKind kind, int depth) {
    if (kind == NodeKind::kRecord) return ConvertRecord(id, depth);
    if (kind == NodeKind::kDict || kind == NodeKind::kOrderedDict) return ConvertDict(id, depth);
    if (kind == NodeKind::kTuple) return ConvertItems(id, graph_.TupleItems(id), depth);
    return ConvertItems(id, graph_.Items(id), depth);
  }

  Result<Converted> ConvertSize(NodeId id) {
    TorchSize size;
    for (const NodeId dim : graph_.TupleItems(id)) size.dims.push_back(graph_.AsInt(dim));
    const uint64_t visits = 1 + size.dims.size();
    return Leaf(std::move(size), visits);
  }

  Result<Converted> ConvertReference(NodeId id) {
    const std::optional<int64_t> tid = graph_.Tid(id);
    if (!tid) return Corrupt("a tensor reference has no tid");
    return Leaf(TensorReference{*tid});
  }

  const PickleGraph& graph_;
  Sharing sharing_;
  uint64_t max_visits_;
  std::unordered_map<NodeId, Converted> done_;  // shared containers only
  std::unordered_set<NodeId> open_;             // containers on the way from the root
};

}  // namespace

class ValueReader::Impl {
 public:
  explicit Impl(const PickleGraph& graph) : graph_(graph), converter_(graph) {}

  Result<PickleValue> Read(NodeId id) {
    NXDKIT_ASSIGN(Converted converted, converter_.Convert(id, 1));
    visits_ += converted.visits;
    NXDKIT_TRY(converter_.CheckVisits(visits_));
    return std::move(converted.value);
  }

  Status ForEach(NodeId dict, const OnItem& f) {
    const std::vector<NodeId>& items = graph_.Items(dict);
    NXDKIT_TRY(converter_.CheckKeys(items));
    for (size_t i = 0; i < items.size(); i += 2) {
      NXDKIT_ASSIGN(const PickleValue key, Read(items[i]));
      NXDKIT_ASSIGN(const PickleValue value, Read(items[i + 1]));
      NXDKIT_TRY(f(key, value));
    }
    return OkStatus();
  }

 private:
  const PickleGraph& graph_;
  Converter converter_;
  uint64_t visits_ = 0;  // of everything read
};

ValueReader::ValueReader(const PickleGraph& graph) : impl_(std::make_unique<Impl>(graph)) {}
ValueReader::~ValueReader() = default;
Result<PickleValue> ValueReader::Read(NodeId id) { return impl_->Read(id); }
Status ValueReader::ForEach(NodeId dict, const OnItem& f) { return impl_->ForEach(dict, f); }

Result<PickleValue> ToValue(const PickleGraph& graph, NodeId root) {
  NXDKIT_ASSIGN(Converted converted, Converter(graph).Convert(root, 1));
  return std::move(converted.value);
}

}  // namespace nxdkit::torch
