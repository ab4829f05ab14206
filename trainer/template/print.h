// Values as text, like Python's str() and json.dumps().
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/template/value.h"

namespace nxdkit::trainer::jinja {

// These traverse all of a value, like Equal.

// str(value): "None", "True", "['a', 1]". kUnsupported for functions and namespaces.
Result<std::string> ToText(const Value& value, Budget& budget);

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<int64_t> indent;
  bool sort_keys = false;
  std::string item_separator;  // empty: Python's default for the indent
  std::string key_separator;
};
// json.dumps(value). kCorrupt for values that JSON cannot represent.
Result<std::string> ToJson(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace nxdkit::trainer::jinja
