#include "formats/dtensor/rank_values.h"

#include <algorithm>
#include <utility>

#include "lib/base/errors.h"

namespace nxdkit::dtensor {

using torch::PickleValue;

bool IsPlain(const PickleValue& value) {
  if (value.tensor() || value.reference() || value.record()) return false;
  if (std::holds_alternative<torch::OpaqueObject>(value.value)) return false;
  if (const auto* set = std::get_if<PickleValue::Set>(&value.value))
    return std::ranges::all_of(*set->items, IsPlain);
  if (const auto* dict = value.dict())
    return std::ranges::all_of(
        *dict, [](const auto& item) { return IsPlain(item.first) && IsPlain(item.second); });
  return !value.list() || std::ranges::all_of(*value.list(), IsPlain);
}

namespace {

using torch::PickleDict;
using torch::PickleList;

bool IsTensor(const PickleValue& value) { return value.tensor() || PlacedReader::IsPlaced(value); }

// The pickle's reader bounds the nesting, and how much there is to walk.
bool HasParts(const PickleValue& value) {
  if (value.dict() || IsTensor(value)) return true;
  return value.list() && std::ranges::any_of(*value.list(), HasParts);
}

struct Walker {
  const torch::Archive& archive;
  PlacedReader placed = PlacedReader(archive);
  ValuePath path = {};
  RankValues out = {};

  Status Walk(const PickleValue& value) {
    if (IsTensor(value)) return AddTensor(value).on(path.Text());
    if (value.dict()) return WalkDict(*value.dict());
    if (value.list() && HasParts(value)) return WalkList(*value.list());
    if (IsPlain(value))
      out.objects.push_back({path, value});
    else
      out.left_out.push_back(path);
    return OkStatus();
  }

  Status WalkDict(const PickleDict& dict) {
    for (const auto& [key, value] : dict) {
      if (key.string())
        path.parts.emplace_back(*key.string());
      else if (key.integer())
        path.parts.emplace_back(*key.integer());
      else
        return Unsupported("a dict has a key that is not a string and not a number")
            .on(path.Text());
      NXDKIT_TRY(Walk(value));
      path.parts.pop_back();
    }
    return OkStatus();
  }

  Status WalkList(const PickleList& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      path.parts.emplace_back(static_cast<int64_t>(i));
      NXDKIT_TRY(Walk(list[i]));
      path.parts.pop_back();
    }
    return OkStatus();
  }

  Status AddTensor(const PickleValue& value) {
    if (const torch::TensorIndex* index = value.tensor()) {
      out.tensors.push_back({path, archive.tensors.at(index->index), std::nullopt});
      return OkStatus();
    }
    NXDKIT_ASSIGN(std::vector<PlacedTensor> parts, placed.Read(value));
    for (PlacedTensor& part : parts)
      out.tensors.push_back({path, std::move(part.stored), std::move(part.place)});
    return OkStatus();
  }
};

}  // namespace

Result<RankValues> ValuesOf(const torch::Archive& archive) {
  Walker walker{archive};
  NXDKIT_TRY(walker.Walk(archive.root));
  return std::move(walker.out);
}

}  // namespace nxdkit::dtensor
