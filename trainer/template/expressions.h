// From tokens to the tree of an expression.
#pragma once

#include "trainer/template/ast.h"
#include "trainer/template/cursor.h"

namespace nxdkit::trainer::jinja {

// An expression; with `tuple`, "a, b" makes a list. kCorrupt for what is not Jinja, kUnsupported
// for what is not known here.
Result<ExprPtr> ParseExpression(TokenCursor& cursor, bool tuple = false);
// The same with `tuple`, stopping before "if": the items of a for loop.
Result<ExprPtr> ParseTupleNoIf(TokenCursor& cursor);
// One filter or several after "filter" in a block, of the variable `name`.
Result<ExprPtr> ParseFilters(TokenCursor& cursor, const std::string& name);

}  // namespace nxdkit::trainer::jinja
