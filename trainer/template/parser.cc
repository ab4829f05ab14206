#include "trainer/template/parser.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "trainer/template/cursor.h"
#include "trainer/template/expressions.h"

namespace nxdkit::trainer::jinja {
namespace {

constexpr int kMaxBlockDepth = 60;  // nesting of blocks
// The name of a block's output, for its filters: no template can write it.
constexpr char kBodyName[] = " body";

class TemplateParser {
 public:
  TemplateParser(std::string_view source, const std::vector<Token>& tokens)
      : cursor_(source, tokens) {}

  Result<std::vector<Stmt>> Run() { return Body({}); }

 private:
  using Words = std::span<const std::string_view>;

  // Statements up to a tag that begins with one of `ends`; the cursor is then at that word.
  Result<std::vector<Stmt>> Body(Words ends) {
    if (++depth_ > kMaxBlockDepth)
      return cursor_.Fail(Errc::kLimit, cursor_.peek().offset,
                          fmt::format("blocks nest deeper than {} levels", kMaxBlockDepth));
    std::vector<Stmt> body;
    for (;;) {
      const Token& token = cursor_.Next();
      if (token.kind == TokenKind::kEnd) {
        if (!ends.empty()) return cursor_.Unexpected(fmt::format("'{}'", ends.back()));
        break;
      }
      if (token.kind == TokenKind::kText) {
        body.push_back({StmtKind::kText, token.offset, token.text});
      } else if (token.kind == TokenKind::kVariableBegin) {
        NXDKIT_ASSIGN(Stmt print, Print(token.offset));
        body.push_back(std::move(print));
      } else {
        if (IsAtAny(ends)) break;
        NXDKIT_ASSIGN(Stmt statement, Statement());
        body.push_back(std::move(statement));
      }
    }
    --depth_;
    return body;
  }

  // Up to its own end tag, which is taken; enclosing loops do not count inside.
  Result<std::vector<Stmt>> BodyOfItsOwn(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    NXDKIT_ASSIGN(std::vector<Stmt> body, Body({&end, 1}));
    loops_ = loops;
    NXDKIT_TRY(End(end));
    return body;
  }

  bool IsAtAny(Words words) const {
    return std::ranges::any_of(words, [&](std::string_view word) { return cursor_.IsName(word); });
  }

  Status EndTag() { return cursor_.Expect(TokenKind::kBlockEnd, "'%}'"); }

  Result<Stmt> Print(size_t offset) {
    Stmt print{StmtKind::kPrint, offset};
    NXDKIT_ASSIGN(print.expr, ParseExpression(cursor_, true));
    NXDKIT_TRY(cursor_.Expect(TokenKind::kVariableEnd, "'}}'"));
    return print;
  }

  Result<Stmt> Statement() {
    const size_t offset = cursor_.peek().offset;
    NXDKIT_ASSIGN(const std::string word, cursor_.ExpectName("the name of a statement"));
    if (word == "if") return If(offset);
    if (word == "for") return For(offset);
    if (word == "set") return Set(offset);
    if (word == "macro") return Macro(offset);
    if (word == "call") return CallBlock(offset);
    if (word == "generation") return Generation(offset);
    if (word == "filter") return FilterBlock(offset);
    if (word == "break" || word == "continue") return Jump(offset, word == "break");
    if (word.starts_with("end") || word == "else" || word == "elif")
      return cursor_.Fail(Errc::kCorrupt, offset, fmt::format("'{}' ends nothing", word));
    return cursor_.Fail(Errc::kUnsupported, offset, fmt::format("the statement '{}'", word));
  }

  // elif chains are flat in the source, but each is the only statement of the `otherwise` before
  // it, so they count as depth; Body's limit applies to them.
  Result<Stmt> If(size_t offset) {
    constexpr std::string_view kEnds[] = {"elif", "else", "endif"};
    Stmt statement{StmtKind::kIf, offset};
    NXDKIT_ASSIGN(statement.expr, ParseExpression(cursor_, true));
    NXDKIT_TRY(EndTag());
    NXDKIT_ASSIGN(statement.body, Body(kEnds));
    const size_t next = cursor_.peek().offset;
    if (cursor_.TakeName("elif")) {
      if (++depth_ > kMaxBlockDepth)
        return cursor_.Fail(Errc::kLimit, next,
                            fmt::format("blocks nest deeper than {} levels", kMaxBlockDepth));
      NXDKIT_ASSIGN(Stmt inner, If(next));
      --depth_;
      statement.otherwise.push_back(std::move(inner));
      return statement;
    }
    if (cursor_.TakeName("else")) {
      NXDKIT_TRY(EndTag());
      NXDKIT_ASSIGN(statement.otherwise, Body(std::span(kEnds).last(1)));
    }
    NXDKIT_TRY(End("endif"));
    return statement;
  }

  Status End(std::string_view word) {
    if (!cursor_.TakeName(word)) return cursor_.Unexpected(fmt::format("'{}'", word));
    return EndTag();
  }

  Status TargetNames(std::vector<std::string>* names) {
    const bool brackets = cursor_.TakeOperator("(");
    do {
      NXDKIT_ASSIGN(std::string name, cursor_.ExpectName("the name of a variable"));
      names->push_back(std::move(name));
    } while (cursor_.TakeOperator(","));
    return brackets ? cursor_.ExpectOperator(")") : OkStatus();
  }

  Result<Stmt> For(size_t offset) {
    constexpr std::string_view kEnds[] = {"else", "endfor"};
    Stmt loop{StmtKind::kFor, offset};
    NXDKIT_TRY(TargetNames(&loop.names));
    if (!cursor_.TakeName("in")) return cursor_.Unexpected("'in'");
    NXDKIT_ASSIGN(loop.expr, ParseTupleNoIf(cursor_));
    if (cursor_.TakeName("if")) NXDKIT_TRY(ParseExpression(cursor_).To(loop.condition));
    if (cursor_.IsName("recursive"))
      return cursor_.Fail(Errc::kUnsupported, cursor_.peek().offset, "a recursive loop");
    NXDKIT_TRY(EndTag());
    ++loops_;
    NXDKIT_ASSIGN(loop.body, Body(kEnds));
    --loops_;
    if (cursor_.TakeName("else")) {
      NXDKIT_TRY(EndTag());
      NXDKIT_ASSIGN(loop.otherwise, Body(std::span(kEnds).last(1)));
    }
    NXDKIT_TRY(End("endfor"));
    return loop;
  }

  Result<Stmt> Jump(size_t offset, bool is_break) {
    if (loops_ == 0)
      return cursor_.Fail(Errc::kCorrupt, offset, "'break' or 'continue' outside of a loop");
    NXDKIT_TRY(EndTag());
    return Stmt{is_break ? StmtKind::kBreak : StmtKind::kContinue, offset};
  }

  Result<Stmt> Set(size_t offset) {
    constexpr std::string_view kEnds[] = {"endset"};
    Stmt set{StmtKind::kSet, offset};
    NXDKIT_TRY(TargetNames(&set.names));
    if (set.names.size() == 1 && cursor_.TakeOperator(".")) {
      set.kind = StmtKind::kSetMember;
      NXDKIT_ASSIGN(std::string member, cursor_.ExpectName("the name of an attribute"));
      set.names.push_back(std::move(member));
    }
    if (cursor_.TakeOperator("=")) {
      NXDKIT_ASSIGN(set.expr, ParseExpression(cursor_, true));
      NXDKIT_TRY(EndTag());
      return set;
    }
    if (set.names.size() > 1)
      return cursor_.Fail(Errc::kUnsupported, offset, "a block 'set' of this kind");
    set.kind = StmtKind::kSetBlock;
    if (cursor_.TakeOperator("|")) {
      set.names.push_back(kBodyName);
      NXDKIT_ASSIGN(set.expr, ParseFilters(cursor_, kBodyName));
    }
    NXDKIT_TRY(EndTag());
    NXDKIT_ASSIGN(set.body, Body(kEnds));
    NXDKIT_TRY(End("endset"));
    return set;
  }

  Result<Stmt> Macro(size_t offset) {
    Stmt macro{StmtKind::kMacro, offset};
    NXDKIT_ASSIGN(std::string name, cursor_.ExpectName("the name of a macro"));
    macro.names.push_back(std::move(name));
    NXDKIT_TRY(Parameters(macro));
    NXDKIT_TRY(MacroBody(macro, "endmacro"));
    return macro;
  }

  // {% call(parameters) macro(arguments) %}body{% endcall %}
  Result<Stmt> CallBlock(size_t offset) {
    Stmt call{StmtKind::kCall, offset};
    call.names.push_back("caller");
    if (cursor_.IsOperator("(")) NXDKIT_TRY(Parameters(call));
    NXDKIT_ASSIGN(call.expr, ParseExpression(cursor_));
    if (call.expr->kind != ExprKind::kCall)
      return cursor_.Fail(Errc::kCorrupt, call.expr->offset, "'call' without a call");
    NXDKIT_TRY(MacroBody(call, "endcall"));
    return call;
  }

  // A macro gets its caller if it mentions it anywhere.
  Status MacroBody(Stmt& macro, std::string_view end) {
    NXDKIT_TRY(EndTag());
    const size_t begin = cursor_.place();
    NXDKIT_ASSIGN(macro.body, BodyOfItsOwn(end));
    macro.takes_caller = cursor_.HasName(begin, "caller");
    return OkStatus();
  }

  Status Parameters(Stmt& macro) {
    NXDKIT_TRY(cursor_.ExpectOperator("("));
    const auto add_parameter = [&]() -> Status {
      const size_t offset = cursor_.peek().offset;
      NXDKIT_ASSIGN(std::string parameter, cursor_.ExpectName("the name of a parameter"));
      if (parameter == "caller")
        return cursor_.Fail(Errc::kUnsupported, offset, "a parameter named 'caller'");
      macro.names.push_back(std::move(parameter));
      if (cursor_.TakeOperator("=")) {
        NXDKIT_ASSIGN(ExprPtr value, ParseExpression(cursor_));
        macro.defaults.push_back(std::move(value));
      } else if (!macro.defaults.empty()) {
        return cursor_.Unexpected("a default, as the parameter before has one");
      }
      return OkStatus();
    };
    return cursor_.Separated(")", add_parameter);
  }

  Result<Stmt> FilterBlock(size_t offset) {
    Stmt filter{StmtKind::kFilter, offset};
    filter.names.push_back(kBodyName);
    NXDKIT_ASSIGN(filter.expr, ParseFilters(cursor_, kBodyName));
    NXDKIT_TRY(EndTag());
    NXDKIT_ASSIGN(filter.body, BodyOfItsOwn("endfilter"));
    return filter;
  }

  Result<Stmt> Generation(size_t offset) {
    Stmt scope{StmtKind::kScope, offset};
    NXDKIT_TRY(EndTag());
    NXDKIT_ASSIGN(scope.body, BodyOfItsOwn("endgeneration"));
    return scope;
  }

  TokenCursor cursor_;
  int depth_ = 0;
  int loops_ = 0;  // around this position
};

}  // namespace

Result<std::vector<Stmt>> ParseTemplate(std::string_view source, Spaces spaces) {
  NXDKIT_ASSIGN(const std::vector<Token> tokens, Tokenize(source, spaces));
  return TemplateParser(source, tokens).Run();
}

}  // namespace nxdkit::trainer::jinja
