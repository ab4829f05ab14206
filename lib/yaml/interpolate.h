// OmegaConf's interpolations in a value read from YAML: ${a.b} is the value of a key of the same
// file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/yaml/value.h"

namespace nxdkit {

inline constexpr std::string_view kInterpolation = "${";  // the start of each

bool IsInterpolated(const Value& value);     // a text with one
bool HasInterpolations(const Value& value);  // in itself, or in an entry

// An interpolation that stays as written.
struct Unresolved {
  std::string key;   // of the value that contains it: "data.seq_length"
  std::string text;  // of the whole value
  std::string reason;
  Place place;
};

// `root` with interpolations replaced: ${a.b} is relative to the root, ${.b} to the map around it,
// ${..b} to the one around that; ${a.0} and ${a[0]} in a list. A scalar that consists of one
// becomes the value, of any kind; within a text it is replaced by the scalar's own text. Values
// keep the place where they are used. Interpolations that cannot be resolved stay as they are and
// are added to `left` (may be null): keys that are missing or lead back to themselves, null within
// a text, resolvers (${oc.env:HOME}), one interpolation inside another, any that lead to one of
// these, and all after 10,000 nodes were made.
Value Interpolate(const Value& root, std::vector<Unresolved>* left = nullptr);

}  // namespace nxdkit
