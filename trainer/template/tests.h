// value is test(arguments). Errors carry no position; the renderer adds it.
#pragma once

#include <string_view>

#include "trainer/template/arguments.h"

namespace nxdkit::trainer::jinja {

// kUnsupported for unknown tests.
Result<bool> ApplyTest(std::string_view name, const Value& value, const Arguments& arguments,
                       Budget& budget);

}  // namespace nxdkit::trainer::jinja
