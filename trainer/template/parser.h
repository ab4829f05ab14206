// Parses the text of a template into its tree.
#pragma once

#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "trainer/template/ast.h"

namespace nxdkit::trainer::jinja {

// `source` must have normalized newlines.
Result<std::vector<Stmt>> ParseTemplate(std::string_view source, Spaces spaces);

}  // namespace nxdkit::trainer::jinja
