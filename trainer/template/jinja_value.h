// The values of a template: what Python would have, less what can change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::trainer::jinja {

class Budget;
class Value;
struct Namespace;
struct Function;
using List = std::vector<Value>;
using Dict = std::vector<std::pair<std::string, Value>>;  // in order; few keys, looked up in turn

struct Undefined {
  std::shared_ptr<const std::string> name;  // of what was not there, for messages
};
struct None {};

// Cheap to copy; strings, lists and dicts are shared and never change. Thread-safe as such.
class Value {
 public:
  using State =
      std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const std::string>,
                   std::shared_ptr<const List>, std::shared_ptr<const Dict>, Namespace*,
                   std::shared_ptr<const Function>>;

  Value() : state_(None{}) {}
  Value(bool value) : state_(value) {}     // NOLINT(explicit)
  Value(int64_t value) : state_(value) {}  // NOLINT(explicit)
  Value(double value) : state_(value) {}   // NOLINT(explicit)
  Value(std::string text)                  // NOLINT(explicit)
      : state_(std::make_shared<const std::string>(std::move(text))) {}
  Value(const char* text) : Value(std::string(text)) {}  // NOLINT(explicit)
  Value(List list);                                      // NOLINT(explicit)
  Value(Dict dict);                                      // NOLINT(explicit)
  Value(Namespace* space) : state_(space) {}             // NOLINT(explicit)
  Value(std::shared_ptr<const Function> function)        // NOLINT(explicit)
      : state_(std::move(function)) {}
  static Value MakeUndefined(std::string name);

  // nullptr when it is something else.
  const std::string* text() const { return Shared<std::string>(); }
  const List* list() const { return Shared<List>(); }
  const Dict* dict() const { return Shared<Dict>(); }
  const Function* function() const { return Shared<Function>(); }
  Namespace* space() const {
    const auto* found = std::get_if<Namespace*>(&state_);
    return found == nullptr ? nullptr : *found;
  }
  const Undefined* undefined() const { return std::get_if<Undefined>(&state_); }
  bool is_none() const { return std::holds_alternative<None>(state_); }
  const bool* boolean() const { return std::get_if<bool>(&state_); }
  bool is_float() const { return std::holds_alternative<double>(state_); }
  // Of an int or, as Python has it, a bool.
  std::optional<int64_t> integer() const;
  // Of an int, bool or float.
  std::optional<double> number() const;
  // Levels of lists and dicts inside each other. What makes values keeps this bounded: they are
  // freed, printed and compared by recursion.
  int depth() const { return depth_; }

 private:
  template <typename T>
  const T* Shared() const {
    const auto* found = std::get_if<std::shared_ptr<const T>>(&state_);
    return found == nullptr ? nullptr : found->get();
  }
  State state_;
  int depth_ = 0;
};

// What namespace() makes; the only thing that `set` can change. Belongs to one rendering.
struct Namespace {
  Dict values;
};

// nullptr when the key is not there.
const Value* Find(const Dict& dict, std::string_view key);

bool IsTrue(const Value& value);
std::string_view TypeName(const Value& value);  // as Python names it

// These go through all of a value, and a value may hold one part many times over: what it costs is
// charged as they go, and kLimit when it is more than is left.

// a == b
Result<bool> Equal(const Value& a, const Value& b, Budget& budget);
// str(value): "None", "True", "['a', 1]". kUnsupported for functions and namespaces.
Result<std::string> ToText(const Value& value, Budget& budget);

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<int64_t> indent;
  bool sort_keys = false;
  std::string item_separator;  // empty: Python's default for the indent
  std::string key_separator;
};
// json.dumps(value). kCorrupt for what JSON cannot say.
Result<std::string> ToJson(const Value& value, const JsonStyle& style, Budget& budget);

// Python's text, by code points.
size_t CountPoints(std::string_view text);
std::vector<std::string_view> Points(std::string_view text);  // each one's bytes

// str.isspace() of one code point: White_Space, and U+001C to U+001F.
bool IsPythonSpace(uint32_t point);
// str.strip(); `chars` is what is taken off, nullopt for white space.
std::string_view Strip(std::string_view text, const std::optional<std::string>& chars, bool left,
                       bool right);

}  // namespace nxdkit::trainer::jinja
