// The values of a template: Python's, except those that can change. Not parsed JSON, because a
// template also has undefined values that know their names, namespaces that change in place, and
// functions; and because values are shared: JSON would be copied at every use of a variable, and
// [x, x] fifty times over would take 2^50 copies.
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
// A key of a dict: text, or another hashable value that templates have (numbers, bools, None).
struct Key {
  Key(std::string key) : text(std::move(key)) {}  // NOLINT(explicit)
  Key(const char* key) : text(key) {}             // NOLINT(explicit)
  // nullopt for values that cannot be keys.
  static std::optional<Key> Of(const Value& value);
  Value value() const;

  bool operator==(std::string_view wanted) const { return other == nullptr && text == wanted; }
  bool operator==(const Key& wanted) const;

  std::string text;
  std::shared_ptr<const Value> other = nullptr;  // nullptr for a text
};

using List = std::vector<Value>;
using Dict = std::vector<std::pair<Key, Value>>;  // in insertion order; few keys, searched linearly

struct Undefined {
  std::shared_ptr<const std::string> name;  // of the missing value, for messages
};
struct None {};

// Distinctions that Python makes among texts (kMarkup is the result of |safe) and among lists.
enum class Form : uint8_t { kPlain, kMarkup, kTuple, kRange, kKeys, kValues, kItems };

// Cheap to copy; strings, lists and dicts are shared and never change. Thread-safe in that respect.
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

  // nullptr if it is something else.
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
  // For an int or, as in Python, a bool.
  std::optional<int64_t> integer() const;
  // For an int, bool or float.
  std::optional<double> number() const;
  // Nesting depth of lists and dicts. The producers of values bound it: values are freed, printed
  // and compared by recursion.
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

// The result of generators and some filters: it can be iterated once. Belongs to one rendering.
struct Iterator {
  List items;
  bool is_used = false;
};

// The result of namespace(); the only thing that `set` can change. Belongs to one rendering.
struct Namespace {
  Dict values;
};

// nullptr if the key is missing.
const Value* Find(const Dict& dict, std::string_view key);
const Value* FindKey(const Dict& dict, const Key& key);

bool IsTrue(const Value& value);
std::string_view TypeName(const Value& value);  // Python's name for it

// Limits the resources of a rendering. Not thread-safe; one for each rendering.
class Budget {
 public:
  // The memory of a list's element, and of one that owns a text or a list.
  static constexpr size_t kItemBytes = 32;
  static constexpr size_t kOwnerBytes = 160;
  // Charges one step, and the cost of `bytes` of memory, or of text that is traversed. kLimit when
  // the budget is used up: after about 1 s, and before 100 MB have been created.
  Status Charge(size_t bytes = 0);

 private:
  size_t used_ = 0;
};

// a == b. Traverses both completely, and a value may contain one part many times: the cost is
// charged on the way, and kLimit when the budget is exceeded.
Result<bool> Equal(const Value& a, const Value& b, Budget& budget);

}  // namespace nxdkit::trainer::jinja
