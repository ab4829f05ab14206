// Parses tokens into the tree of an expression.
#pragma once

#include "trainer/template/ast.h"
#include "trainer/template/cursor.h"

namespace nxdkit::trainer::jinja {

// An expression; with `tuple`, "a, b" makes a list. kCorrupt for invalid Jinja, kUnsupported for
// unknown features.
Result<ExprPtr> ParseExpression(TokenCursor& cursor, bool tuple = false);
// The same with `tuple`, stopping before "if": the items of a for loop.
Result<ExprPtr> ParseTupleNoIf(TokenCursor& cursor);
// One or more filters after "filter" in a block, applied to the variable `name`.
Result<ExprPtr> ParseFilters(TokenCursor& cursor, const std::string& name);

}  // namespace nxdkit::trainer::jinja
