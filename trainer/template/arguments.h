// The arguments of a call of a function, filter, test or method, and its declaration of parameters.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "trainer/template/value.h"

namespace nxdkit::trainer::jinja {

// The parameters of a function, filter or method: at most so many by position, and these by name.
struct Parameters {
  size_t most = 0;
  std::array<std::string_view, 4> names = {};
};

struct Arguments {
  List values;
  Dict named;

  // By position or by name; nullptr when it was not passed.
  const Value* Get(size_t place, std::string_view name) const;
  // kUnsupported when there are more than these, or one has another name.
  Status Allow(const Parameters& known) const;
  // kCorrupt when it is not a str; nullopt when it was not passed or is None.
  Result<std::optional<std::string>> Text(size_t place, std::string_view name) const;
};

}  // namespace nxdkit::trainer::jinja
