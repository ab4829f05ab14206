// Fields of persistent ids are as in torch/serialization.py, argument lists as in torch/_utils.py,
// both of torch 1.13 to 2.15.
#include "formats/torch/tensor_rebuild.h"

#include <fmt/core.h>

#include <optional>

#include "lib/base/checked.h"
#include "lib/base/errors.h"

namespace nxdkit::torch {
namespace {

using Arguments = std::span<const NodeId>;

Error BadId(std::string message) {
  return Error(Errc::kCorrupt, "persistent id: " + std::move(message));
}

struct StorageFields {
  std::optional<Dtype> dtype;
  std::string_view key;
  uint64_t bytes = 0;
  int64_t element_bytes = 1;
};

Result<StorageFields> ParseStorageId(const PickleGraph& graph, Arguments fields) {
  StorageFields out;
  const NodeId type = fields[1];
  if (graph.kind(type) != NodeKind::kGlobal) return BadId("field 2 is not a storage class");
  const Global& global = graph.AsGlobal(type);
  if (global.kind == GlobalKind::kStorageClass)
    out.dtype = global.dtype;
  else if (global.kind != GlobalKind::kUntypedStorageClass)
    return BadId(fmt::format("field 2 is {}, expected a storage class", global.name));
  if (graph.kind(fields[2]) != NodeKind::kString) return BadId("field 3, the key, is not a string");
  out.key = graph.AsText(fields[2]);
  if (graph.kind(fields[4]) != NodeKind::kInt || graph.AsInt(fields[4]) < 0)
    return BadId("field 5, the number of elements, is not an integer of 0 or more");
  out.element_bytes = out.dtype ? ElementBytes(*out.dtype) : 1;
  const auto bytes = CheckedMul(graph.AsInt(fields[4]), out.element_bytes);
  if (!bytes)
    return BadId(fmt::format("{} elements of {} bytes", graph.AsInt(fields[4]), out.element_bytes));
  out.bytes = static_cast<uint64_t>(*bytes);
  return out;
}

// The view of a legacy storage: None, or (key of the view, offset, size), both in elements.
Status ApplyView(const PickleGraph& graph, NodeId view, int64_t element_bytes, StorageRef& ref) {
  if (graph.kind(view) == NodeKind::kNone) return OkStatus();
  const bool tuple = graph.kind(view) == NodeKind::kTuple;
  const Arguments fields = tuple ? graph.TupleItems(view) : Arguments();
  if (fields.size() != 3 || graph.kind(fields[1]) != NodeKind::kInt ||
      graph.kind(fields[2]) != NodeKind::kInt)
    return BadId("field 6, the view, is neither None nor (key, offset, size)");
  const int64_t offset = graph.AsInt(fields[1]);
  const int64_t size = graph.AsInt(fields[2]);
  const auto elements = ref.bytes / static_cast<uint64_t>(element_bytes);
  if (offset < 0 || size < 0 || static_cast<uint64_t>(offset) > elements ||
      static_cast<uint64_t>(size) > elements - static_cast<uint64_t>(offset))
    return BadId(
        fmt::format("a view of {} elements at {} of a storage of {}", size, offset, elements));
  ref.base = static_cast<uint64_t>(offset) * static_cast<uint64_t>(element_bytes);
  ref.bytes = static_cast<uint64_t>(size) * static_cast<uint64_t>(element_bytes);
  return OkStatus();
}

Error WrongArgument(const Global& function, size_t index, NodeKind found,
                    std::string_view expected) {
  return Corrupt("argument {} of {} is a {}, expected {}", index + 1, function.name,
                 KindName(found), expected);
}

struct Signature {
  GlobalKind kind;
  size_t least;
  size_t most;
};
constexpr Signature kSignatures[] = {
    {GlobalKind::kRebuildTensor, 4, 4},  // storage, offset, size, stride
    // ..., requires_grad, backward_hooks[, metadata]
    {GlobalKind::kRebuildTensorV2, 6, 7},
    // ..., requires_grad, backward_hooks, dtype[, metadata]
    {GlobalKind::kRebuildTensorV3, 7, 8},
    {GlobalKind::kRebuildParameter, 3, 3},           // data, requires_grad, backward_hooks
    {GlobalKind::kRebuildParameterWithState, 4, 4},  // ..., state
    {GlobalKind::kRebuildFromTypeV2, 4, 4},          // function, type, arguments, state
    {GlobalKind::kRebuildFromCpuTensor, 4, 4},       // data, dtype, device, requires_grad
};

Status CheckCount(const Global& function, size_t count) {
  for (const Signature& signature : kSignatures) {
    if (signature.kind != function.kind) continue;
    if (count >= signature.least && count <= signature.most) return OkStatus();
    return Corrupt("{} called with {} arguments, expected {} to {}", function.name, count,
                   signature.least, signature.most);
  }
  return Error(Errc::kInternal, fmt::format("no signature of {}", function.name));
}

Result<Shape> Integers(const PickleGraph& graph, const Global& function, Arguments arguments,
                       size_t index) {
  const NodeKind kind = graph.kind(arguments[index]);
  if (kind != NodeKind::kTuple && kind != NodeKind::kSize)
    return WrongArgument(function, index, kind, "a tuple of integers");
  Shape out;
  for (const NodeId item : graph.TupleItems(arguments[index])) {
    if (graph.kind(item) != NodeKind::kInt)
      return WrongArgument(function, index, kind, "a tuple of integers");
    if (graph.AsInt(item) < 0)
      return Corrupt("argument {} of {} has the negative number {}", index + 1, function.name,
                     graph.AsInt(item));
    out.push_back(graph.AsInt(item));
  }
  return out;
}

// Metadata says whether the numbers are to be conjugated or negated when read. torch 1.13 drops
// these bits; we do neither that nor the arithmetic.
Status CheckMetadata(const PickleGraph& graph, const Global& function, Arguments arguments,
                     size_t index) {
  if (index >= arguments.size() || graph.kind(arguments[index]) == NodeKind::kNone)
    return OkStatus();
  if (graph.kind(arguments[index]) != NodeKind::kDict)
    return WrongArgument(function, index, graph.kind(arguments[index]), "a dict or None");
  const std::vector<NodeId>& items = graph.Items(arguments[index]);
  for (size_t i = 0; i < items.size(); i += 2) {
    const bool named = graph.kind(items[i]) == NodeKind::kString;
    if (graph.kind(items[i + 1]) == NodeKind::kBool && !graph.AsBool(items[i + 1])) continue;
    return Unsupported("a tensor with the {} bit set is not supported",
                       named ? graph.AsText(items[i]) : "?")
        .hint("save Tensor.resolve_conj() or Tensor.resolve_neg() instead");
  }
  return OkStatus();
}

// Elements from the first one to one past the last; nullopt on overflow.
std::optional<uint64_t> ExtentInElements(const Shape& shape, const Shape& strides) {
  uint64_t extent = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto reach =
        CheckedMul(static_cast<uint64_t>(shape[i]) - 1, static_cast<uint64_t>(strides[i]));
    const auto sum = reach ? CheckedAdd(extent, *reach) : std::nullopt;
    if (!sum) return std::nullopt;
    extent = *sum;
  }
  return extent;
}

// Places the tensor in its storage: every element must lie inside.
Status Place(StoredTensor& tensor, int64_t offset, const StorageRef& storage) {
  if (tensor.shape.size() != tensor.strides.size())
    return Corrupt("a tensor has {} dimensions and {} strides", tensor.shape.size(),
                   tensor.strides.size());
  NXDKIT_ASSIGN(const uint64_t packed, PackedBytes(tensor.dtype, tensor.shape));
  if (packed == 0) return OkStatus();  // no element to place; torch allows any offset
  const auto element = static_cast<uint64_t>(ElementBytes(tensor.dtype));
  const std::optional<uint64_t> extent = ExtentInElements(tensor.shape, tensor.strides);
  const auto end = extent ? CheckedAdd(*extent, static_cast<uint64_t>(offset)) : std::nullopt;
  const auto end_bytes = end ? CheckedMul(*end, element) : std::nullopt;
  if (!end_bytes || *end_bytes > storage.bytes)
    return Corrupt(
        "a tensor of shape {}, strides {} and offset {} ({}) is not within "
        "its storage of {} bytes",
        ShapeText(tensor.shape), ShapeText(tensor.strides), offset, TorchName(tensor.dtype),
        storage.bytes);
  tensor.offset = storage.base + static_cast<uint64_t>(offset) * element;
  return OkStatus();
}

Result<Dtype> DtypeArgument(const PickleGraph& graph, const Global& function, Arguments arguments,
                            size_t index) {
  const NodeKind kind = graph.kind(arguments[index]);
  if (kind != NodeKind::kGlobal) return WrongArgument(function, index, kind, "a dtype");
  const Global& global = graph.AsGlobal(arguments[index]);
  // float4_e2m1fn_x2 has two numbers in one element, which no shape here can express.
  if (global.kind != GlobalKind::kDtype || ElementBytes(global.dtype) == 0)
    return Unsupported("tensors of {} are not supported", global.name);
  return global.dtype;
}

Result<NodeId> RebuildFromStorage(PickleGraph& graph, const Global& function, Arguments arguments) {
  if (graph.kind(arguments[0]) != NodeKind::kStorage)
    return WrongArgument(function, 0, graph.kind(arguments[0]), "a storage");
  if (graph.kind(arguments[1]) != NodeKind::kInt || graph.AsInt(arguments[1]) < 0)
    return WrongArgument(function, 1, graph.kind(arguments[1]), "an offset of 0 or more");
  const StorageRef& storage = graph.AsStorage(arguments[0]);
  const bool v3 = function.kind == GlobalKind::kRebuildTensorV3;
  NXDKIT_TRY(CheckMetadata(graph, function, arguments, v3 ? 7 : 6));

  StoredTensor tensor;
  if (v3)
    NXDKIT_TRY(DtypeArgument(graph, function, arguments, 6).To(tensor.dtype));
  else if (storage.dtype)
    tensor.dtype = *storage.dtype;
  else
    return Corrupt("{} of an untyped storage", function.name);
  NXDKIT_ASSIGN(tensor.shape, Integers(graph, function, arguments, 2));
  NXDKIT_ASSIGN(tensor.strides, Integers(graph, function, arguments, 3));
  NXDKIT_TRY(Place(tensor, graph.AsInt(arguments[1]), storage));
  // The shortest spelling of a tensor has 45 bytes; a repeated call has 5.
  if (!graph.PayForCopy(16 + 2 * tensor.shape.size()))
    return Unsupported("the same tensor is rebuilt over and over; no pickler does so");
  return graph.Tensor(std::move(tensor), storage.storage);
}

// Parameters, tensors with Python attributes and copies of device tensors hold a tensor; only that
// is kept.
Result<NodeId> InnerTensor(const PickleGraph& graph, const Global& function, Arguments arguments) {
  if (graph.kind(arguments[0]) == NodeKind::kTensor) return arguments[0];
  return WrongArgument(function, 0, graph.kind(arguments[0]), "a tensor");
}

Result<NodeId> RebuildFromCpuTensor(PickleGraph& graph, const Global& function,
                                    Arguments arguments) {
  NXDKIT_ASSIGN(const NodeId inner, InnerTensor(graph, function, arguments));
  NXDKIT_ASSIGN(const Dtype dtype, DtypeArgument(graph, function, arguments, 1));
  const Dtype stored = graph.tensors[graph.AsTensor(inner)].dtype;
  if (stored == dtype) return inner;
  return Unsupported("a tensor of {} that was saved as {}", TorchName(dtype), TorchName(stored));
}

// _rebuild_from_type_v2(function, type, arguments, state) calls function(*arguments) and sets the
// result's type. It cannot be the function itself, so this does not recurse further.
Result<NodeId> RebuildFromType(PickleGraph& graph, const Global& function, NodeId tuple,
                               Arguments arguments) {
  const auto is = [&](size_t index, auto... kinds) {
    if (graph.kind(arguments[index]) != NodeKind::kGlobal) return false;
    const GlobalKind kind = graph.AsGlobal(arguments[index]).kind;
    return ((kind == kinds) || ...);
  };
  if (is(0, GlobalKind::kInert) || is(1, GlobalKind::kInert))
    return graph.OfGlobal(NodeKind::kOpaque,
                          &graph.AsGlobal(arguments[is(0, GlobalKind::kInert) ? 0 : 1]));
  // Distributed tensors are left to the reader.
  if (is(0, GlobalKind::kRecord) && is(1, GlobalKind::kRecord))
    return graph.Record(&function, tuple, true);
  if (!is(0, GlobalKind::kRebuildTensor, GlobalKind::kRebuildTensorV2, GlobalKind::kRebuildTensorV3,
          GlobalKind::kRebuildParameter, GlobalKind::kRebuildParameterWithState))
    return WrongArgument(function, 0, graph.kind(arguments[0]),
                         "a function that rebuilds a tensor");
  if (!is(1, GlobalKind::kTensorClass))
    return WrongArgument(function, 1, graph.kind(arguments[1]), "torch.Tensor or Parameter");
  return RebuildTensor(graph, graph.AsGlobal(arguments[0]), arguments[2]);
}

}  // namespace

Result<NodeId> LoadStorage(PickleGraph& graph, NodeId id, PickleFlavor flavor, uint64_t offset) {
  const size_t expected = flavor == PickleFlavor::kZip ? 5 : 6;
  if (graph.kind(id) != NodeKind::kTuple)
    return BadId(fmt::format("a {}, expected a tuple", graph.kind_name(id)));
  const Arguments fields = graph.TupleItems(id);
  const bool named = !fields.empty() && graph.kind(fields[0]) == NodeKind::kString;
  const std::string_view what = named ? graph.AsText(fields[0]) : "";
  if (what == "module")
    return Unsupported("the file holds a whole module (a Python class)")
        .hint("save module.state_dict() instead of the module");
  if (what != "storage") return BadId(fmt::format("names a \"{}\", expected a \"storage\"", what));
  if (fields.size() != expected)
    return BadId(fmt::format("{} fields, expected {}", fields.size(), expected));
  NXDKIT_ASSIGN(const StorageFields claim, ParseStorageId(graph, fields));
  NXDKIT_ASSIGN(const uint32_t storage,
                graph.Claim(claim.key, claim.bytes, claim.element_bytes, offset));
  StorageRef ref{storage, 0, claim.bytes, claim.dtype};
  if (flavor == PickleFlavor::kLegacy)
    NXDKIT_TRY(ApplyView(graph, fields[5], claim.element_bytes, ref));
  return graph.Storage(ref);
}

Result<NodeId> RebuildTensor(PickleGraph& graph, const Global& function, NodeId arguments) {
  if (graph.kind(arguments) != NodeKind::kTuple)
    return Corrupt("{} called with a {}, expected a tuple", function.name,
                   graph.kind_name(arguments));
  const Arguments values = graph.TupleItems(arguments);  // nothing below adds a tuple
  NXDKIT_TRY(CheckCount(function, values.size()));
  const GlobalKind kind = function.kind;
  if (kind == GlobalKind::kRebuildParameter || kind == GlobalKind::kRebuildParameterWithState)
    return InnerTensor(graph, function, values);
  if (kind == GlobalKind::kRebuildFromTypeV2)
    return RebuildFromType(graph, function, arguments, values);
  if (kind == GlobalKind::kRebuildFromCpuTensor)
    return RebuildFromCpuTensor(graph, function, values);
  return RebuildFromStorage(graph, function, values);
}

}  // namespace nxdkit::torch
