// Walks the tree of a template and prints it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "trainer/template/ast.h"

namespace nxdkit::trainer::jinja {

// `source`: the text from which `body` was parsed, for messages. `now` and errors:
// Template::Render.
Result<std::string> Render(std::string_view source, const std::vector<Stmt>& body,
                           const Dict& variables, std::optional<int64_t> now);

}  // namespace nxdkit::trainer::jinja
