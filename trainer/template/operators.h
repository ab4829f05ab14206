// The operators of templates, with the semantics of Jinja and Python. Errors carry no position; the
// renderer adds it.
#pragma once

#include <string>
#include <string_view>

#include "trainer/template/value.h"

namespace nxdkit::trainer::jinja {

Result<Value> Binary(std::string_view op, const Value& a, const Value& b, Budget& budget);
Result<Value> Negate(const Value& value);
// == != < <= > >= in, "not in".
Result<bool> Compare(std::string_view op, const Value& a, const Value& b, Budget& budget);

Result<Value> Attribute(const Value& object, const std::string& name);
Result<Value> Index(const Value& object, const Value& key, Budget& budget);
// Parts that are None count as omitted.
Result<Value> Slice(const Value& object, const Value& from, const Value& to, const Value& step,
                    Budget& budget);
// The items that a for loop visits.
Result<List> Iterate(const Value& value, Budget& budget);
// len(value)
Result<int64_t> Length(const Value& value);

}  // namespace nxdkit::trainer::jinja
