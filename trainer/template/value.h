// The values of a template: what Python would have, less what can change. Not parsed JSON, because
// a template also has undefined values that know their names, namespaces that change in place, and
// functions; and because values are shared: JSON would be copied at every use of a variable,
// and [x, x] fifty times over would take 2^50 copies.
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

// Bounds what a rendering may do. Not thread-safe; one for each rendering.
class Budget {
 public:
  static constexpr size_t kBytesPerUnit = 16;
  // One step, and what `bytes` of text, or kBytesPerUnit times the number of elements, cost. kLimit
  // when used up.
  Status Charge(size_t bytes = 0);

 private:
  size_t used_ = 0;
};

// a == b. Goes through all of both, and a value may hold one part many times over: what it costs is
// charged as it goes, and kLimit when it is more than is left.
Result<bool> Equal(const Value& a, const Value& b, Budget& budget);

}  // namespace nxdkit::trainer::jinja
