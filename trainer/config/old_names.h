// PRIVATE to trainer/config. Keys of EasyR1's earlier releases, and verl's keys in a configuration
// of EasyR1's form.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lib/yaml/value.h"

namespace nxdkit::trainer {

struct OldName {
  std::string_view path;
  // Today's keys of the same meaning, separated by '|': they get the value. "" if it may be
  // dropped.
  std::string_view becomes = "";
  // The values with which it may be dropped, separated by '|'; "" for any, kNoValue for none.
  std::string_view harmless = "";
  std::string_view advice = "";  // advice for any other value
};
inline constexpr std::string_view kNoValue = "|";

std::span<const OldName> OldNames();
// The row of a full path; nullptr if there is none.
const OldName* FindOldName(std::string_view path);
// Whether there are old names below `path`: "algorithm.kl_ctrl".
bool IsOldGroup(std::string_view path);
// Whether a row with this value may be dropped.
bool IsDroppable(const OldName& row, const Value& value);

}  // namespace nxdkit::trainer
