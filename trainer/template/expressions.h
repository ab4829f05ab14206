// From tokens to the tree of an expression.
#pragma once

#include "trainer/template/ast.h"
#include "trainer/template/cursor.h"

namespace nxdkit::trainer::jinja {

// An expression; with `tuple`, "a, b" makes a list. kCorrupt for what is not Jinja, kUnsupported
// for what is not known here.
Result<ExprPtr> ParseExpression(TokenCursor& cursor, bool tuple = false);
// The same with `tuple`, stopping before "if": the items of a for loop.
// What stands after "filter" in a block: one filter or several, of the variable `name`.
Result<ExprPtr> ParseFilters(TokenCursor& cursor, const std::string& name);
Result<ExprPtr> ParseTupleNoIf(TokenCursor& cursor);

}  // namespace nxdkit::trainer::jinja
