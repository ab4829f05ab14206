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
struct Iterator;
// Of a dict: a text, or what else Python hashes of what templates have (numbers, bools, None).
struct Key {
  Key(std::string key) : text(std::move(key)) {}  // NOLINT(explicit)
  Key(const char* key) : text(key) {}             // NOLINT(explicit)
  // nullopt for what cannot be one.
  static std::optional<Key> Of(const Value& value);
  Value value() const;

  bool operator==(std::string_view wanted) const { return other == nullptr && text == wanted; }
  bool operator==(const Key& wanted) const;

  std::string text;
  std::shared_ptr<const Value> other = nullptr;  // nullptr for a text
};

using List = std::vector<Value>;
using Dict = std::vector<std::pair<Key, Value>>;  // in order; few keys, looked up in turn

struct Undefined {
  std::shared_ptr<const std::string> name;  // of what was not there, for messages
};
struct None {};

// What Python tells apart among texts (kMarkup is what |safe makes) and among lists.
enum class Form : uint8_t { kPlain, kMarkup, kTuple, kRange, kKeys, kValues, kItems };

// Cheap to copy; strings, lists and dicts are shared and never change. Thread-safe as such.
class Value {
 public:
  using State =
      std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const std::string>,
                   std::shared_ptr<const List>, std::shared_ptr<const Dict>, Namespace*,
                   std::shared_ptr<const Function>, std::shared_ptr<Iterator>>;

  Value() : state_(None{}) {}
  Value(bool value) : state_(value) {}               // NOLINT(explicit)
  Value(int64_t value) : state_(value) {}            // NOLINT(explicit)
  Value(double value) : state_(value) {}             // NOLINT(explicit)
  Value(std::string text, Form form = Form::kPlain)  // NOLINT(explicit)
      : state_(std::make_shared<const std::string>(std::move(text))), form_(form) {}
  Value(const char* text) : Value(std::string(text)) {}  // NOLINT(explicit)
  Value(List list, Form form = Form::kPlain);            // NOLINT(explicit)
  Value(Dict dict);                                      // NOLINT(explicit)
  Value(Namespace* space) : state_(space) {}             // NOLINT(explicit)
  Value(std::shared_ptr<const Function> function)        // NOLINT(explicit)
      : state_(std::move(function)) {}
  static Value MakeUndefined(std::string name);
  static Value MakeIterator(List items);

  // nullptr when it is something else.
  const std::string* text() const { return Shared<std::string>(); }
  const List* list() const { return Shared<List>(); }
  const Dict* dict() const { return Shared<Dict>(); }
  const Function* function() const { return Shared<Function>(); }
  Iterator* iterator() const {
    const auto* found = std::get_if<std::shared_ptr<Iterator>>(&state_);
    return found == nullptr ? nullptr : found->get();
  }
  Form form() const { return form_; }
  // dict.keys(), values() and items().
  bool is_view() const {
    return form_ == Form::kKeys || form_ == Form::kValues || form_ == Form::kItems;
  }
  bool is_markup() const { return form_ == Form::kMarkup; }
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
  Form form_ = Form::kPlain;
};

// What generators and some filters make: it can be gone through once. Belongs to one rendering.
struct Iterator {
  List items;
  bool is_used = false;
};

// What namespace() makes; the only thing that `set` can change. Belongs to one rendering.
struct Namespace {
  Dict values;
};

// nullptr when the key is not there.
const Value* Find(const Dict& dict, std::string_view key);
const Value* FindKey(const Dict& dict, const Key& key);

bool IsTrue(const Value& value);
std::string_view TypeName(const Value& value);  // as Python names it

// Bounds what a rendering may do. Not thread-safe; one for each rendering.
class Budget {
 public:
  // What an element of a list takes in memory, and one that owns a text or a list of its own.
  static constexpr size_t kItemBytes = 32;
  static constexpr size_t kOwnerBytes = 160;
  // One step, and what `bytes` of memory cost, or of text that is gone through. kLimit when used
  // up: after 1 s or so, and before all that was made is 100 MB.
  Status Charge(size_t bytes = 0);

 private:
  size_t used_ = 0;
};

// a == b. Goes through all of both, and a value may hold one part many times over: what it costs is
// charged as it goes, and kLimit when it is more than is left.
Result<bool> Equal(const Value& a, const Value& b, Budget& budget);

}  // namespace nxdkit::trainer::jinja
