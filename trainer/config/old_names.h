// PRIVATE to trainer/config. Keys of EasyR1's earlier releases, and of verl in a configuration of
// EasyR1's form.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lib/yaml/value.h"

namespace nxdkit::trainer {

struct OldName {
  std::string_view path;
  // Keys of today that mean the same, '|' between them: the value is theirs. "" where it may go.
  std::string_view becomes = "";
  // The values with which it may go, '|' between them; "" for any, kNoValue for none.
  std::string_view harmless = "";
  std::string_view advice = "";  // what to do about another value
};
inline constexpr std::string_view kNoValue = "|";

std::span<const OldName> OldNames();
// The row of a full path; nullptr when there is none.
const OldName* FindOldName(std::string_view path);
// Whether there are old names below `path`: "algorithm.kl_ctrl".
bool IsOldGroup(std::string_view path);
// Whether the row may go with this value.
bool MayGo(const OldName& row, const Value& value);

}  // namespace nxdkit::trainer
