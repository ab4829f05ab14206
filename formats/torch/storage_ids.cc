// The fields of the ids: torch/serialization.py of torch 1.13 to 2.15.
#include "formats/torch/storage_ids.h"

#include <fmt/core.h>

#include <optional>

#include "lib/base/checked.h"

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

}  // namespace

Result<NodeId> LoadStorage(PickleGraph& graph, NodeId id, PickleFlavor flavor, uint64_t offset) {
  const size_t expected = flavor == PickleFlavor::kZip ? 5 : 6;
  if (graph.kind(id) != NodeKind::kTuple)
    return BadId(fmt::format("a {}, expected a tuple", KindName(graph.kind(id))));
  const Arguments fields = graph.TupleItems(id);
  const bool named = !fields.empty() && graph.kind(fields[0]) == NodeKind::kString;
  const std::string_view what = named ? graph.AsText(fields[0]) : "";
  if (what == "module")
    return Error(Errc::kUnsupported, "the file holds a whole module (a Python class)")
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

}  // namespace nxdkit::torch
