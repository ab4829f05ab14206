// What a function, filter, test or method is called with, and how it says what it takes.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "trainer/template/value.h"

namespace nxdkit::trainer::jinja {

// What a function, filter or method takes: at most so many arguments by place, and these by name.
struct Parameters {
  size_t most = 0;
  std::array<std::string_view, 4> names = {};
};

struct Arguments {
  List values;
  Dict named;

  // By place or by name; nullptr when it was not given.
  const Value* Get(size_t place, std::string_view name) const;
  // kUnsupported when there are more than these, or one is named otherwise.
  Status Allow(const Parameters& known) const;
  // kCorrupt when it is not a str; nullopt when it was not given or is None.
  Result<std::optional<std::string>> Text(size_t place, std::string_view name) const;
};

}  // namespace nxdkit::trainer::jinja
