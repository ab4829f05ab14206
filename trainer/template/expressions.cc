// Recursive descent in the order of Jinja's precedences.
#include "trainer/template/expressions.h"

#include <fmt/core.h>

#include <algorithm>

#include "trainer/base/characters.h"

namespace nxdkit::trainer::jinja {
namespace {

constexpr int kMaxDepth = 60;       // nesting of brackets and calls
constexpr int kMaxTreeDepth = 200;  // of the tree: a + b + c + ... is one level deeper for each

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenCursor& cursor) : cursor_(cursor) {}

  Result<ExprPtr> Conditional() {
    if (++nesting_ > kMaxDepth)
      return cursor_.Fail(Errc::kLimit, cursor_.peek().offset,
                          fmt::format("expressions nest deeper than {} levels", kMaxDepth));
    Result<ExprPtr> expr = ConditionalHere();
    --nesting_;
    return expr;
  }

  using Operand = Result<ExprPtr> (ExpressionParser::*)();

  // "a, b, c" as a tuple; one expression without a comma as itself.
  Result<ExprPtr> Tuple(Operand operand) {
    const size_t offset = cursor_.peek().offset;
    NXDKIT_ASSIGN(ExprPtr first, (this->*operand)());
    if (!cursor_.IsOperator(",")) return first;
    ExprPtr list = Make(ExprKind::kTuple, offset);
    list->parts.push_back(std::move(first));
    while (cursor_.TakeOperator(",")) {
      if (EndsTuple()) break;
      NXDKIT_TRY(AddPart(*list, (this->*operand)()));
    }
    return Checked(std::move(list));
  }

  // upper | replace("a", "b"), applied to a variable.
  Result<ExprPtr> FiltersOf(const std::string& variable) {
    ExprPtr value = Make(ExprKind::kName, cursor_.peek().offset);
    value->name = variable;
    do {
      NXDKIT_ASSIGN(value, FilterHere(std::move(value)));
    } while (cursor_.TakeOperator("|"));
    return value;
  }

  Result<ExprPtr> Or() { return Chain(ExprKind::kOr, {"or"}, &ExpressionParser::And); }

 private:
  template <typename... Parts>
  static ExprPtr Make(ExprKind kind, size_t offset, Parts... parts) {
    ExprPtr expr = std::make_unique<Expr>(Expr{kind, offset});
    (expr->parts.push_back(std::move(parts)), ...);
    return expr;
  }

  static Status AddPart(Expr& whole, Result<ExprPtr> part) {
    if (!part.ok()) return std::move(part).error();
    whole.parts.push_back(std::move(*part));
    return OkStatus();
  }

  Result<ExprPtr> Checked(ExprPtr expr) const {
    int below = 0;
    for (const ExprPtr& part : expr->parts)
      if (part != nullptr) below = std::max(below, part->depth);
    for (const auto& [name, part] : expr->named) below = std::max(below, part->depth);
    expr->depth = below + 1;
    if (expr->depth > kMaxTreeDepth)
      return cursor_.Fail(Errc::kLimit, expr->offset,
                          fmt::format("an expression of more than {} levels", kMaxTreeDepth));
    return expr;
  }

  // operand OP operand OP ..., left-associative.
  Result<ExprPtr> Chain(ExprKind kind, std::initializer_list<std::string_view> ops,
                        Operand operand) {
    NXDKIT_ASSIGN(ExprPtr left, (this->*operand)());
    const auto is_here = [&](std::string_view op) {
      return kind == ExprKind::kBinary ? cursor_.IsOperator(op) : cursor_.IsName(op);
    };
    while (std::ranges::any_of(ops, is_here)) {
      const Token& token = cursor_.Next();
      NXDKIT_ASSIGN(ExprPtr right, (this->*operand)());
      ExprPtr whole = Make(kind, token.offset, std::move(left), std::move(right));
      whole->name = token.text;
      NXDKIT_ASSIGN(left, Checked(std::move(whole)));
    }
    return left;
  }

  bool EndsTuple() const {
    const TokenKind kind = cursor_.peek().kind;
    return kind == TokenKind::kBlockEnd || kind == TokenKind::kVariableEnd ||
           cursor_.IsOperator(")") || cursor_.IsOperator("=");
  }

  Result<ExprPtr> ConditionalHere() {
    NXDKIT_ASSIGN(ExprPtr value, Or());
    while (cursor_.IsName("if")) {
      const size_t offset = cursor_.Next().offset;
      NXDKIT_ASSIGN(ExprPtr condition, Or());
      ExprPtr otherwise;
      if (cursor_.TakeName("else")) NXDKIT_TRY(Conditional().To(otherwise));
      NXDKIT_ASSIGN(value, Checked(Make(ExprKind::kIf, offset, std::move(value),
                                        std::move(condition), std::move(otherwise))));
    }
    return value;
  }

  Result<ExprPtr> And() { return Chain(ExprKind::kAnd, {"and"}, &ExpressionParser::Not); }

  Result<ExprPtr> Not() {
    std::vector<size_t> offsets;
    while (cursor_.IsName("not")) offsets.push_back(cursor_.Next().offset);
    NXDKIT_ASSIGN(ExprPtr value, Compare());
    for (; !offsets.empty(); offsets.pop_back())
      NXDKIT_TRY(Checked(Make(ExprKind::kNot, offsets.back(), std::move(value))).To(value));
    return value;
  }

  // Takes the comparison at the cursor; empty if there is none.
  std::string TakeComparison() {
    for (const std::string_view op : {"==", "!=", "<=", ">=", "<", ">"})
      if (cursor_.TakeOperator(op)) return std::string(op);
    if (cursor_.TakeName("in")) return "in";
    if (cursor_.IsName("not") && cursor_.peek(1).kind == TokenKind::kName &&
        cursor_.peek(1).text == "in") {
      cursor_.Next();
      cursor_.Next();
      return "not in";
    }
    return {};
  }

  Result<ExprPtr> Compare() {
    NXDKIT_ASSIGN(ExprPtr first, Sum());
    const size_t offset = cursor_.peek().offset;
    std::string op = TakeComparison();
    if (op.empty()) return first;
    ExprPtr whole = Make(ExprKind::kCompare, offset, std::move(first));
    for (; !op.empty(); op = TakeComparison()) {
      NXDKIT_TRY(AddPart(*whole, Sum()));
      whole->names.push_back(op);
    }
    return Checked(std::move(whole));
  }

  Result<ExprPtr> Sum() {
    return Chain(ExprKind::kBinary, {"+", "-"}, &ExpressionParser::Concatenation);
  }
  Result<ExprPtr> Concatenation() {
    return Chain(ExprKind::kBinary, {"~"}, &ExpressionParser::Product);
  }
  Result<ExprPtr> Product() {
    NXDKIT_ASSIGN(ExprPtr product,
                  Chain(ExprKind::kBinary, {"*", "/", "//", "%"}, &ExpressionParser::Filtered));
    if (!cursor_.IsOperator("**")) return product;
    return cursor_.Fail(Errc::kUnsupported, cursor_.peek().offset, "the operator '**'");
  }

  Result<ExprPtr> Filtered() {
    NXDKIT_ASSIGN(ExprPtr value, Unary());
    for (;;) {
      if (cursor_.IsOperator("|"))
        NXDKIT_TRY(Filter(std::move(value)).To(value));
      else if (cursor_.IsName("is"))
        NXDKIT_TRY(Test(std::move(value)).To(value));
      else if (cursor_.IsOperator("("))
        NXDKIT_TRY(Call(std::move(value)).To(value));
      else
        return value;
    }
  }

  // A sign binds tighter than a filter: -1 | abs is (-1) | abs.
  Result<ExprPtr> Unary() {
    std::vector<const Token*> signs;
    while (cursor_.IsOperator("-") || cursor_.IsOperator("+")) signs.push_back(&cursor_.Next());
    NXDKIT_ASSIGN(ExprPtr value, Postfix());
    for (; !signs.empty(); signs.pop_back()) {
      const ExprKind kind = signs.back()->text == "-" ? ExprKind::kNegative : ExprKind::kPositive;
      NXDKIT_ASSIGN(value, Checked(Make(kind, signs.back()->offset, std::move(value))));
    }
    return value;
  }

  Result<ExprPtr> Postfix() {
    NXDKIT_ASSIGN(ExprPtr value, Primary());
    return PostfixOf(std::move(value));
  }

  Result<ExprPtr> PostfixOf(ExprPtr value) {
    for (;;) {
      if (cursor_.IsOperator("."))
        NXDKIT_TRY(Attribute(std::move(value)).To(value));
      else if (cursor_.IsOperator("["))
        NXDKIT_TRY(Subscript(std::move(value)).To(value));
      else if (cursor_.IsOperator("("))
        NXDKIT_TRY(Call(std::move(value)).To(value));
      else
        return value;
    }
  }

  Result<ExprPtr> Attribute(ExprPtr object) {
    ExprPtr whole = Make(ExprKind::kAttribute, cursor_.Next().offset, std::move(object));
    if (cursor_.peek().kind == TokenKind::kInteger) {  // a.0 is a[0]
      whole->kind = ExprKind::kIndex;
      NXDKIT_TRY(AddPart(*whole, Primary()));
      return Checked(std::move(whole));
    }
    NXDKIT_ASSIGN(whole->name, cursor_.ExpectName("the name of an attribute"));
    return Checked(std::move(whole));
  }

  // One part of a slice; nullptr if it is omitted.
  Result<ExprPtr> SlicePart() {
    if (cursor_.IsOperator(":") || cursor_.IsOperator("]")) return ExprPtr();
    return Conditional();
  }

  Result<ExprPtr> Subscript(ExprPtr object) {
    ExprPtr whole = Make(ExprKind::kIndex, cursor_.Next().offset);
    NXDKIT_ASSIGN(ExprPtr first, SlicePart());
    if (first == nullptr && !cursor_.IsOperator(":")) return cursor_.Unexpected("an index");
    whole->parts.push_back(std::move(object));
    whole->parts.push_back(std::move(first));
    if (cursor_.TakeOperator(":")) {
      whole->kind = ExprKind::kSlice;
      NXDKIT_TRY(AddPart(*whole, SlicePart()));
      NXDKIT_TRY(AddPart(*whole, cursor_.TakeOperator(":") ? SlicePart() : ExprPtr()));
    }
    if (cursor_.IsOperator(","))
      return cursor_.Fail(Errc::kUnsupported, whole->offset, "an index of several parts");
    NXDKIT_TRY(cursor_.ExpectOperator("]"));
    return Checked(std::move(whole));
  }

  Status Arguments(Expr* call) {
    NXDKIT_TRY(cursor_.ExpectOperator("("));
    return cursor_.Separated(")", [&] { return Argument(call); });
  }

  Status Argument(Expr* call) {
    for (const std::string_view stars : {"**", "*"}) {
      if (!cursor_.IsOperator(stars)) continue;
      ExprPtr spread = Make(ExprKind::kSpread, cursor_.Next().offset);
      spread->name = stars;
      NXDKIT_TRY(AddPart(*spread, Conditional()));
      NXDKIT_ASSIGN(spread, Checked(std::move(spread)));
      call->parts.push_back(std::move(spread));
      return OkStatus();
    }
    const bool is_named = cursor_.peek().kind == TokenKind::kName &&
                          cursor_.peek(1).kind == TokenKind::kOperator &&
                          cursor_.peek(1).text == "=";
    std::string name;
    if (is_named) {
      name = cursor_.Next().text;
      cursor_.Next();
    }
    NXDKIT_ASSIGN(ExprPtr value, Conditional());
    if (is_named)
      call->named.emplace_back(std::move(name), std::move(value));
    else if (!call->named.empty())
      return cursor_.Fail(Errc::kCorrupt, value->offset, "an argument after a named one");
    else
      call->parts.push_back(std::move(value));
    return OkStatus();
  }

  Result<ExprPtr> Call(ExprPtr callee) {
    ExprPtr whole = Make(ExprKind::kCall, cursor_.peek().offset, std::move(callee));
    NXDKIT_TRY(Arguments(whole.get()));
    return Checked(std::move(whole));
  }

  Result<ExprPtr> Filter(ExprPtr value) {
    cursor_.Next();
    return FilterHere(std::move(value));
  }

  Result<ExprPtr> FilterHere(ExprPtr value) {
    ExprPtr whole = Make(ExprKind::kFilter, cursor_.peek().offset, std::move(value));
    NXDKIT_ASSIGN(whole->name, cursor_.ExpectName("the name of a filter"));
    if (cursor_.IsOperator("(")) NXDKIT_TRY(Arguments(whole.get()));
    return Checked(std::move(whole));
  }

  // Whether a test is followed by an argument without parentheses: `x is divisibleby 3`.
  bool BeginsArgument() const {
    switch (cursor_.peek().kind) {
      case TokenKind::kString:
      case TokenKind::kInteger:
      case TokenKind::kFloat:
        return true;
      case TokenKind::kName:
        return !(cursor_.IsName("else") || cursor_.IsName("or") || cursor_.IsName("and") ||
                 cursor_.IsName("if") || cursor_.IsName("is") || cursor_.IsName("not") ||
                 cursor_.IsName("in"));
      default:
        return cursor_.IsOperator("[") || cursor_.IsOperator("{");
    }
  }

  Result<ExprPtr> Test(ExprPtr value) {
    const size_t offset = cursor_.Next().offset;
    const bool negated = cursor_.TakeName("not");
    ExprPtr whole = Make(ExprKind::kTest, cursor_.peek().offset, std::move(value));
    NXDKIT_ASSIGN(whole->name, cursor_.ExpectName("the name of a test"));
    if (cursor_.IsOperator("("))
      NXDKIT_TRY(Arguments(whole.get()));
    else if (BeginsArgument())
      NXDKIT_TRY(AddPart(*whole, Postfix()));
    NXDKIT_ASSIGN(whole, Checked(std::move(whole)));
    if (!negated) return whole;
    return Checked(Make(ExprKind::kNot, offset, std::move(whole)));
  }

  Result<ExprPtr> Primary() {
    const Token& token = cursor_.peek();
    switch (token.kind) {
      case TokenKind::kName:
        return Name();
      case TokenKind::kString:
        return String();
      case TokenKind::kInteger:
      case TokenKind::kFloat:
        return Number();
      default:
        break;
    }
    if (cursor_.IsOperator("(")) return Brackets();
    if (cursor_.IsOperator("[")) return ListOf();
    if (cursor_.IsOperator("{")) return DictOf();
    return cursor_.Unexpected("an expression");
  }

  ExprPtr Literal(size_t offset, Value value) const {
    ExprPtr literal = Make(ExprKind::kLiteral, offset);
    literal->value = std::move(value);
    return literal;
  }

  Result<ExprPtr> Name() {
    const Token& token = cursor_.Next();
    if (token.text == "true" || token.text == "True") return Literal(token.offset, true);
    if (token.text == "false" || token.text == "False") return Literal(token.offset, false);
    if (token.text == "none" || token.text == "None") return Literal(token.offset, Value());
    ExprPtr name = Make(ExprKind::kName, token.offset);
    name->name = token.text;
    return name;
  }

  // Adjacent strings are concatenated.
  Result<ExprPtr> String() {
    const size_t offset = cursor_.peek().offset;
    std::string text;
    while (cursor_.peek().kind == TokenKind::kString) text += cursor_.Next().text;
    return Literal(offset, std::move(text));
  }

  Result<ExprPtr> Number() {
    const Token& token = cursor_.Next();
    const bool whole = token.kind == TokenKind::kInteger;
    if (const auto number = ParseNumber<int64_t>(token.text); whole && number)
      return Literal(token.offset, *number);
    if (const auto number = ParseNumber<double>(token.text); !whole && number)
      return Literal(token.offset, *number);
    return cursor_.Fail(Errc::kUnsupported, token.offset,
                        fmt::format("the number {}", token.text.substr(0, 40)));
  }

  Result<ExprPtr> Brackets() {
    const size_t offset = cursor_.Next().offset;
    if (cursor_.TakeOperator(")")) return Make(ExprKind::kTuple, offset);
    NXDKIT_ASSIGN(ExprPtr value, Tuple(&ExpressionParser::Conditional));
    NXDKIT_TRY(cursor_.ExpectOperator(")"));
    return value;
  }

  Result<ExprPtr> ListOf() {
    ExprPtr list = Make(ExprKind::kList, cursor_.Next().offset);
    NXDKIT_TRY(cursor_.Separated("]", [&] { return AddPart(*list, Conditional()); }));
    return Checked(std::move(list));
  }

  Result<ExprPtr> DictOf() {
    ExprPtr dict = Make(ExprKind::kDict, cursor_.Next().offset);
    const auto entry = [&]() -> Status {
      NXDKIT_TRY(AddPart(*dict, Conditional()));
      NXDKIT_TRY(cursor_.ExpectOperator(":"));
      return AddPart(*dict, Conditional());
    };
    NXDKIT_TRY(cursor_.Separated("}", entry));
    return Checked(std::move(dict));
  }

  TokenCursor& cursor_;
  int nesting_ = 0;
};

}  // namespace

Result<ExprPtr> ParseExpression(TokenCursor& cursor, bool tuple) {
  ExpressionParser parser(cursor);
  return tuple ? parser.Tuple(&ExpressionParser::Conditional) : parser.Conditional();
}

Result<ExprPtr> ParseFilters(TokenCursor& cursor, const std::string& name) {
  return ExpressionParser(cursor).FiltersOf(name);
}

Result<ExprPtr> ParseTupleNoIf(TokenCursor& cursor) {
  return ExpressionParser(cursor).Tuple(&ExpressionParser::Or);
}

}  // namespace nxdkit::trainer::jinja
