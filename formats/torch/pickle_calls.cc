#include "formats/torch/pickle_calls.h"

#include <algorithm>
#include <array>
#include <string>

#include "formats/torch/tensor_rebuild.h"
#include "lib/base/errors.h"
#include "lib/base/utf8.h"

namespace nxdkit::torch {
namespace {

using Arguments = std::span<const NodeId>;

Error WrongArguments(const Global& callee, std::string_view expected) {
  return Corrupt("{} called with other arguments than {}", callee.name, expected);
}

Error CopiesTooMuch(const Global& callee) {
  return Unsupported("{} copies the same values over and over; no pickler writes this",
                     callee.name);
}

bool IsString(const PickleGraph& graph, NodeId id) { return graph.kind(id) == NodeKind::kString; }

// Python 2 gives the items as a list of pairs; Python 3 calls without arguments.
Result<NodeId> CallOrderedDict(PickleGraph& graph, const Global& callee, Arguments arguments) {
  const NodeId dict = graph.Container(NodeKind::kOrderedDict);
  if (arguments.empty()) return dict;
  if (arguments.size() != 1 || graph.kind(arguments[0]) != NodeKind::kList)
    return WrongArguments(callee, "() or a list of pairs");
  const std::vector<NodeId>& pairs = graph.Items(arguments[0]);
  if (!graph.PayForCopy(pairs.size())) return CopiesTooMuch(callee);
  std::vector<NodeId> items;
  for (const NodeId pair : pairs) {
    const NodeKind kind = graph.kind(pair);
    const bool list = kind == NodeKind::kList;
    if (!list && kind != NodeKind::kTuple) return WrongArguments(callee, "() or a list of pairs");
    const Arguments values = list ? Arguments(graph.Items(pair)) : graph.TupleItems(pair);
    if (values.size() != 2) return WrongArguments(callee, "() or a list of pairs");
    items.insert(items.end(), values.begin(), values.end());
  }
  graph.Items(dict) = std::move(items);
  return dict;
}

// Counter({value: count}): kept as its dict.
Result<NodeId> CallCounter(PickleGraph& graph, const Global& callee, Arguments arguments) {
  if (arguments.empty()) return graph.Container(NodeKind::kDict);
  if (arguments.size() == 1 && graph.kind(arguments[0]) == NodeKind::kDict) return arguments[0];
  return WrongArguments(callee, "() or a dict");
}

Result<NodeId> CallSet(PickleGraph& graph, const Global& callee, Arguments arguments) {
  const NodeId set = graph.Container(NodeKind::kSet);
  if (arguments.empty()) return set;
  if (arguments.size() != 1 || graph.kind(arguments[0]) != NodeKind::kList)
    return WrongArguments(callee, "() or a list");
  std::vector<NodeId> items = graph.Items(arguments[0]);
  if (!graph.PayForCopy(items.size())) return CopiesTooMuch(callee);
  graph.Items(set) = std::move(items);
  return set;
}

// Protocol 2 has no bytes: they are the code points of a string, each below 256.
Result<NodeId> BytesFromLatin1(PickleGraph& graph, const Global& callee, Arguments arguments) {
  constexpr std::array<std::string_view, 3> kLatin1 = {"latin1", "latin-1", "iso-8859-1"};
  if (arguments.size() != 2 || !IsString(graph, arguments[0]) || !IsString(graph, arguments[1]) ||
      std::ranges::find(kLatin1, graph.AsText(arguments[1])) == kLatin1.end())
    return WrongArguments(callee, "a string and 'latin1'");
  const std::string_view text = graph.AsText(arguments[0]);
  if (!graph.PayForCopy(text.size())) return CopiesTooMuch(callee);
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const std::optional<CodePoint> point = DecodeUtf8(text, at);
    NXDKIT_CHECK(point.has_value());  // strings were validated when they were read
    if (point->value > 0xff) return Corrupt("{} of U+{:04X} as latin1", callee.name, point->value);
    bytes.push_back(static_cast<char>(point->value));
    at += static_cast<size_t>(point->bytes);
  }
  return graph.OwnedBytes(std::move(bytes));
}

Result<NodeId> CallByteArray(PickleGraph& graph, const Global& callee, Arguments arguments) {
  if (arguments.empty()) return graph.OwnedBytes("");
  if (arguments.size() == 2) return BytesFromLatin1(graph, callee, arguments);
  const NodeKind kind = graph.kind(arguments[0]);
  if (arguments.size() == 1 && (kind == NodeKind::kBytes || kind == NodeKind::kOwnedBytes))
    return arguments[0];
  return WrongArguments(callee, "(), bytes, or a string and 'latin1'");
}

Result<NodeId> CallSize(PickleGraph& graph, const Global& callee, Arguments arguments) {
  if (arguments.size() != 1 || graph.kind(arguments[0]) != NodeKind::kTuple)
    return WrongArguments(callee, "a tuple of integers");
  for (const NodeId dim : graph.TupleItems(arguments[0]))
    if (graph.kind(dim) != NodeKind::kInt) return WrongArguments(callee, "a tuple of integers");
  return graph.Size(arguments[0]);
}

// The inner class of ShardedTensor, named by getattr(ShardedTensor, "ProcessGroupState").
Result<NodeId> InnerClass(PickleGraph& graph, const Global& callee, Arguments arguments) {
  static const Global kInner = {
      "torch.distributed._shard.sharded_tensor.api.ShardedTensor.ProcessGroupState",
      GlobalKind::kRecord};  // constant
  constexpr std::string_view kOuter = "torch.distributed._shard.sharded_tensor.api.ShardedTensor";
  if (arguments.size() != 2 || graph.kind(arguments[0]) != NodeKind::kGlobal ||
      graph.AsGlobal(arguments[0]).name != kOuter || !IsString(graph, arguments[1]) ||
      graph.AsText(arguments[1]) != "ProcessGroupState")
    return Unsupported("{} of anything but ShardedTensor's ProcessGroupState", callee.name);
  return graph.OfGlobal(NodeKind::kGlobal, &kInner);
}

Error NotCallable(const PickleGraph& graph, NodeId callee, std::string_view how) {
  if (graph.kind(callee) != NodeKind::kGlobal)
    return Corrupt("{} of a value of type {}, expected a global", how, graph.kind_name(callee));
  return Unsupported("{} of {} is not supported", how, graph.AsGlobal(callee).name);
}

// The attributes of a reference. Each class has exactly these.
constexpr std::array<std::string_view, 1> kReferenceAttributes = {"tid"};
constexpr std::array<std::string_view, 4> kInternalAttributes = {"tid", "shape", "dtype",
                                                                 "expert_model_parallel"};

Status BuildReference(PickleGraph& graph, NodeId object, NodeId state) {
  if (graph.kind(state) != NodeKind::kDict)
    return Corrupt("BUILD of a tensor reference from a {}, expected a dict",
                   graph.kind_name(state));
  const std::span<const std::string_view> known =
      graph.IsInternalReference(object) ? std::span<const std::string_view>(kInternalAttributes)
                                        : std::span<const std::string_view>(kReferenceAttributes);
  const std::vector<NodeId>& items = graph.Items(state);
  for (size_t i = 0; i < items.size(); i += 2) {
    const std::string_view name = IsString(graph, items[i]) ? graph.AsText(items[i]) : "";
    if (std::ranges::find(known, name) == known.end())
      return Unsupported("a tensor reference has the unknown attribute \"{}\"", name);
    if (name != "tid") continue;
    if (graph.kind(items[i + 1]) != NodeKind::kInt || graph.AsInt(items[i + 1]) < 0)
      return Corrupt("the tid of a tensor reference is not an integer of 0 or more");
    graph.SetTid(object, graph.AsInt(items[i + 1]));
  }
  return OkStatus();
}

}  // namespace

bool IsInert(const PickleGraph& graph, NodeId id) {
  const NodeKind kind = graph.kind(id);
  return (kind == NodeKind::kOpaque || kind == NodeKind::kGlobal) &&
         graph.AsGlobal(id).kind == GlobalKind::kInert;
}

Result<NodeId> Call(PickleGraph& graph, NodeId callee, NodeId arguments) {
  if (IsInert(graph, callee)) return graph.OfGlobal(NodeKind::kOpaque, &graph.AsGlobal(callee));
  if (graph.kind(callee) != NodeKind::kGlobal) return NotCallable(graph, callee, "REDUCE");
  if (graph.kind(arguments) != NodeKind::kTuple)
    return Corrupt("REDUCE with a {} for arguments, expected a tuple", graph.kind_name(arguments));
  const Global& global = graph.AsGlobal(callee);
  // A copy: a call may add tuples, which moves the items of this one.
  const std::span<const NodeId> tuple = graph.TupleItems(arguments);
  const std::vector<NodeId> values(tuple.begin(), tuple.end());
  if (global.kind == GlobalKind::kOrderedDict) return CallOrderedDict(graph, global, values);
  if (global.kind == GlobalKind::kCounter) return CallCounter(graph, global, values);
  if (global.kind == GlobalKind::kSet) return CallSet(graph, global, values);
  if (global.kind == GlobalKind::kByteArray) return CallByteArray(graph, global, values);
  if (global.kind == GlobalKind::kEncode) return BytesFromLatin1(graph, global, values);
  if (global.kind == GlobalKind::kNamedCall) return graph.OfGlobal(NodeKind::kOpaque, &global);
  if (global.kind == GlobalKind::kSize) return CallSize(graph, global, values);
  if (global.kind == GlobalKind::kRecord) return graph.Record(&global, arguments, true);
  if (global.kind == GlobalKind::kInnerClass) return InnerClass(graph, global, values);
  switch (global.kind) {
    case GlobalKind::kRebuildTensor:
    case GlobalKind::kRebuildTensorV2:
    case GlobalKind::kRebuildTensorV3:
    case GlobalKind::kRebuildParameter:
    case GlobalKind::kRebuildParameterWithState:
    case GlobalKind::kRebuildFromTypeV2:
    case GlobalKind::kRebuildFromCpuTensor:
      return RebuildTensor(graph, global, arguments);
    default:
      return NotCallable(graph, callee, "REDUCE");
  }
}

Result<NodeId> NewObject(PickleGraph& graph, NodeId callee, NodeId arguments) {
  if (IsInert(graph, callee)) return Call(graph, callee, arguments);
  if (graph.kind(callee) != NodeKind::kGlobal) return NotCallable(graph, callee, "NEWOBJ");
  if (graph.kind(arguments) != NodeKind::kTuple)
    return Corrupt("NEWOBJ with a {} for arguments, expected a tuple", graph.kind_name(arguments));
  const GlobalKind kind = graph.AsGlobal(callee).kind;
  if (kind == GlobalKind::kOrderedDict || kind == GlobalKind::kSize)
    return Call(graph, callee, arguments);
  if (kind == GlobalKind::kRecord) return graph.Record(&graph.AsGlobal(callee), arguments, false);
  if (kind != GlobalKind::kReference && kind != GlobalKind::kInternalReference)
    return NotCallable(graph, callee, "NEWOBJ");
  if (!graph.TupleItems(arguments).empty()) return WrongArguments(graph.AsGlobal(callee), "()");
  return graph.Reference(kind == GlobalKind::kInternalReference);
}

Status Build(PickleGraph& graph, NodeId object, NodeId state) {
  if (IsInert(graph, object)) return OkStatus();
  const NodeKind kind = graph.kind(object);
  if (kind == NodeKind::kRecord) {
    if (graph.AsRecord(object).state)
      return Unsupported("a second BUILD of one {}; no pickler writes this",
                         graph.AsRecord(object).global->name);
    graph.SetState(object, state);
    return OkStatus();
  }
  if (kind == NodeKind::kReference) return BuildReference(graph, object, state);
  // The attributes of an OrderedDict; torch uses one, _metadata, which is not a tensor and is left
  // out.
  if (kind == NodeKind::kOrderedDict && graph.kind(state) == NodeKind::kDict) return OkStatus();
  return Unsupported("BUILD of a {} from a {} is not supported", KindName(kind),
                     graph.kind_name(state));
}

}  // namespace nxdkit::torch
