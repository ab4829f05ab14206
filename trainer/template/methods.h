// object.method(arguments) of texts and dicts. Errors carry no place; the renderer adds it.
#pragma once

#include <string_view>

#include "trainer/template/arguments.h"

namespace nxdkit::trainer::jinja {

bool IsMethod(const Value& object, std::string_view name);
// kUnsupported for methods that are not known here, or that would change the object.
Result<Value> CallMethod(const Value& object, std::string_view name, const Arguments& arguments,
                         Budget& budget);

}  // namespace nxdkit::trainer::jinja
