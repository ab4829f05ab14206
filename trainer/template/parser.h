// From the text of a template to its tree.
#pragma once

#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "trainer/template/ast.h"

namespace nxdkit::trainer::jinja {

// `source` has its newlines normalized.
Result<std::vector<Stmt>> ParseTemplate(std::string_view source, Spaces spaces);

}  // namespace nxdkit::trainer::jinja
