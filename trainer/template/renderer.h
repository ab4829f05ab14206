// Walks the tree of a template and prints. One object for one rendering; not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "trainer/template/arguments.h"
#include "trainer/template/ast.h"

namespace nxdkit::trainer::jinja {

class Renderer {
 public:
  // `source` is what the tree was made of, for messages.
  Renderer(std::string_view source, const Dict& variables, std::optional<int64_t> now);

  Result<std::string> Run(const std::vector<Stmt>& body);

 private:
  enum class Flow { kOn, kBreak, kContinue };
  using Scope = Dict;
  class Deeper;

  Error Located(Error error, size_t offset) const;

  // Names are looked for from the innermost scope out. In a macro only its own scopes count, then
  // the two outermost: the variables given, and what the template itself has set.
  const Value* Look(std::string_view name) const;

  Status Print(std::string_view text);
  Result<Flow> Body(const std::vector<Stmt>& body);
  Result<Flow> ScopedBody(const std::vector<Stmt>& body);
  Result<Flow> Statement(const Stmt& statement);
  Result<Flow> For(const Stmt& loop);
  Result<List> LoopItems(const Stmt& loop);
  Status SetTargets(const Stmt& statement, const std::vector<std::string>& names,
                    const Value& value);
  Status SetMember(const Stmt& statement);
  Result<std::string> Captured(const std::vector<Stmt>& body);

  Result<Value> Evaluate(const Expr& expr);
  Result<Value> EvaluateHere(const Expr& expr);
  Result<Value> EvaluatePart(const Expr& expr, size_t part);
  Result<Value> ListOf(const Expr& expr);
  Result<Value> DictOf(const Expr& expr);
  Result<Value> CompareChain(const Expr& expr);
  Result<Value> Conditional(const Expr& expr);
  Result<Value> Call(const Expr& expr);
  Result<Value> CallFunction(const Function& function, const Arguments& arguments);
  Result<Value> CallMacro(const Stmt& macro, const Arguments& arguments);
  Result<Value> MakeNamespace(const Arguments& arguments);
  Result<Arguments> ArgumentsOf(const Expr& expr);

  std::string_view source_;
  std::optional<int64_t> now_;
  Budget budget_;
  std::vector<Scope> scopes_;
  size_t first_scope_ = 2;  // of the macro that runs; the two before are always there
  std::deque<Namespace> namespaces_;
  std::string out_;
  int depth_ = 0;
};

}  // namespace nxdkit::trainer::jinja
