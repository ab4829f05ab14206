// The functions available in every template, except those that need the renderer, and the methods
// of texts and dicts. Errors carry no position; the renderer adds it.
#pragma once

#include <cstdint>
#include <string_view>

#include "trainer/template/arguments.h"

namespace nxdkit::trainer::jinja {

// range(end), range(begin, end), range(begin, end, step) as a list; at most 100000 numbers.
Result<Value> MakeRange(const Arguments& arguments, Budget& budget);
// strftime_now(format): `now`, seconds of Unix time, as UTC.
Result<Value> FormatTime(const Arguments& arguments, int64_t now);
// raise_exception(message)
Error RaisedError(const Arguments& arguments, Budget& budget);

bool IsMethod(const Value& object, std::string_view name);
// object.name(arguments). kUnsupported for unknown methods, and those that would change the object.
Result<Value> CallMethod(const Value& object, std::string_view name, const Arguments& arguments,
                         Budget& budget);

}  // namespace nxdkit::trainer::jinja
