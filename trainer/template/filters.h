// value | filter(arguments). Errors carry no place; the renderer adds it.
#pragma once

#include <string_view>

#include "trainer/template/arguments.h"

namespace nxdkit::trainer::jinja {

// kUnsupported for filters that are not known here.
Result<Value> ApplyFilter(std::string_view name, const Value& value, const Arguments& arguments,
                          Budget& budget);

}  // namespace nxdkit::trainer::jinja
