// A value of a config file with its place: the result of reading a YAML document, and the contents
// of the open maps of Config (reward_function_kwargs, override_config, ...).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nxdkit {

enum class ValueKind { kNull, kBool, kInt, kDouble, kString, kList, kMap };
std::string_view ValueKindText(ValueKind kind);  // with its article: "an integer"

// A place in a text, from 1; 0: the value does not come from a file.
struct Place {
  int line = 0;
  int column = 0;
};

struct ValueEntry;

struct Value {
  ValueKind kind = ValueKind::kNull;
  bool boolean = false;  // kBool
  int64_t integer = 0;   // kInt
  double number = 0;     // a scalar as written; kString without its quotes
  std::string text;      // a scalar as written; of kString without its quotes
  std::vector<Value> items;
  std::vector<ValueEntry> entries;  // in the order written, keys are unique
  Place place;

  static Value Map();  // an empty one
  // The value under `key` of a map; nullptr if there is none.
  const Value* Find(std::string_view key) const;
};

struct ValueEntry {
  std::string key;
  Place place;
  Value value;
};

// The value of an unquoted scalar: null, ~ and nothing; true, yes, on and their opposites; decimal
// integers of 64 bits; decimal fractions, also 1e-6 (which YAML 1.1 takes for text, but every user
// means as a number). Numbers with leading zeros, hexadecimal ones and .inf stay text.
Value ResolveScalar(std::string text);

void MergeValue(Value& into, const Value& from);  // maps merge; all else is replaced

// One line that is both JSON and YAML: {"a": 1.0e-06, "b": [true, null]}.
std::string ValueText(const Value& value);
// A number that YAML 1.1, YAML 1.2 and JSON all read as the same float: 1.0e-06, not 1e-06.
std::string NumberText(double number);
std::string QuotedText(std::string_view text);  // escapes are those that JSON and YAML share

}  // namespace nxdkit
