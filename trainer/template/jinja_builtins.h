// What templates can do with values: operators, filters, tests and methods, as Jinja and Python
// have them. Errors carry no place; the renderer adds it.
#pragma once

#include <string>
#include <string_view>

#include "trainer/template/jinja_value.h"

namespace nxdkit::trainer::jinja {

// Bounds what a rendering may do. Not thread-safe; one for each rendering.
class Budget {
 public:
  // One step, and what `bytes` of text or 16 times the number of elements cost. kLimit when used
  // up.
  Status Charge(size_t bytes = 0);

 private:
  size_t used_ = 0;
};

struct Arguments {
  List values;
  Dict named;

  // By place or by name; nullptr when it was not given.
  const Value* Get(size_t place, std::string_view name) const;
  // kUnsupported when there are more than `most`, or one is named otherwise.
  Status Allow(size_t most, std::initializer_list<std::string_view> names = {}) const;
  // kCorrupt when it is no str; nullopt when it was not given or is None.
  Result<std::optional<std::string>> Text(size_t place, std::string_view name) const;
};

Result<Value> Binary(std::string_view op, const Value& a, const Value& b, Budget& budget);
Result<Value> Negate(const Value& value);
// == != < <= > >= in, "not in".
Result<bool> Compare(std::string_view op, const Value& a, const Value& b, Budget& budget);

Result<Value> Attribute(const Value& object, const std::string& name);
Result<Value> Index(const Value& object, const Value& key, Budget& budget);
// Parts that are None stand for nothing written.
Result<Value> Slice(const Value& object, const Value& from, const Value& to, const Value& step,
                    Budget& budget);
// What a for loop goes through.
Result<List> Iterate(const Value& value, Budget& budget);
// len(value)
Result<int64_t> Length(const Value& value);

Result<Value> ApplyFilter(std::string_view name, const Value& value, const Arguments& arguments,
                          Budget& budget);
Result<bool> ApplyTest(std::string_view name, const Value& value, const Arguments& arguments,
                       Budget& budget);
bool IsMethod(const Value& object, std::string_view name);
Result<Value> CallMethod(const Value& object, std::string_view name, const Arguments& arguments,
                         Budget& budget);
// str.replace(); `most` < 0 is all.
Result<std::string> Replace(std::string_view text, std::string_view from, std::string_view to,
                            int64_t most, Budget& budget);
std::string ToUpper(std::string_view text);
std::string ToLower(std::string_view text);
std::string Capitalize(std::string_view text);

}  // namespace nxdkit::trainer::jinja
