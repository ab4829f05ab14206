// OmegaConf's interpolations in a value that was read from YAML: ${a.b} is the value of a key of
// the same file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/yaml/value.h"

namespace nxdkit {

inline constexpr std::string_view kInterpolation = "${";  // what each begins with

bool IsInterpolated(const Value& value);     // a text that has one
bool HasInterpolations(const Value& value);  // itself, or what is in it

// An interpolation that stays in the value as it is written.
struct Unresolved {
  std::string key;   // of the value that it stands in: "data.seq_length"
  std::string text;  // of the whole value
  std::string reason;
  Place place;
};

// `root` with interpolations replaced: ${a.b} from the root on, ${.b} from the map that it stands
// in, ${..b} from the one around it; ${a.0} and ${a[0]} in a list. A scalar that is nothing else
// becomes the value, whatever its kind; within a text the scalar's own text stands there. Values
// keep the place where they are used. What cannot be had is left as it is and added to `left` (may
// be null): keys that are missing or lead back to themselves, null within a text, resolvers
// (${oc.env:HOME}), one interpolation inside another, what leads to one of these, and all after
// 10,000 nodes were made.
Value Interpolate(const Value& root, std::vector<Unresolved>* left = nullptr);

}  // namespace nxdkit
