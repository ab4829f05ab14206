// PRIVATE to trainer/text: parts of tokenizer.json that are one step or a Sequence of steps.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/errors.h"
#include "lib/json/json.h"

namespace nxdkit::trainer {

inline constexpr int kMaxPartsDepth = 8;

struct StepList {
  std::string_view member;              // "decoder"
  std::string_view list;                // in a Sequence: "decoders"
  std::vector<std::string_view> types;  // the known ones, besides Sequence
  std::string_view expected;            // for messages
};

inline Result<const Json*> ListOf(const Json& json, std::string_view key, std::string_view member) {
  const Json* list = JsonFind(json, key);
  if (list == nullptr || !list->is_array())
    return Corrupt("found no array '{}'", key).member(member);
  return list;
}

// Calls each(type, step), which returns a Status, for every step that is not a Sequence.
template <typename Each>
Status ForEachStep(const Json& json, const StepList& part, const Each& each, int depth = 0) {
  NXDKIT_ASSIGN(const std::string type, JsonString(json, "type"));
  if (std::ranges::find(part.types, type) != part.types.end()) return each(type, json);
  if (type != "Sequence" || depth >= kMaxPartsDepth)
    return Unsupported("type '{}' is not known, expected {}", type, part.expected)
        .member(part.member);
  NXDKIT_ASSIGN(const Json* list, ListOf(json, part.list, part.member));
  for (const Json& step : *list) NXDKIT_TRY(ForEachStep(step, part, each, depth + 1));
  return OkStatus();
}

}  // namespace nxdkit::trainer
