#include "trainer/template/renderer.h"

#include <algorithm>
#include <deque>
#include <span>
#include <utility>

#include "lib/base/errors.h"
#include "trainer/template/arguments.h"
#include "trainer/template/filters.h"
#include "trainer/template/functions.h"
#include "trainer/template/lexer.h"
#include "trainer/template/operators.h"
#include "trainer/template/print.h"
#include "trainer/template/tests.h"

namespace nxdkit::trainer::jinja {
namespace {

constexpr int kMaxRenderDepth = 400;
constexpr int kMaxValueDepth = 100;
constexpr size_t kMaxOutputBytes = size_t{16} << 20;
constexpr std::string_view kFunctions[] = {"raise_exception", "namespace", "range", "dict"};
// Functions of Jinja that are not supported; their names must not pass for undefined ones.
constexpr std::string_view kMissing[] = {"lipsum", "cycler", "joiner", "varargs", "kwargs", "self"};

Value MakeFunction(std::string_view name) {
  return Value(std::make_shared<const Function>(Function{std::string(name)}));
}

// Names, and the enclosing scope, in which names are looked up next.
struct Scope {
  Dict values;
  size_t parent;
  uint64_t number;  // unique for each scope of a rendering
};

Value LoopVariable(const List& items, size_t i) {
  const auto index = static_cast<int64_t>(i), size = static_cast<int64_t>(items.size());
  return Value(
      Dict{{"index", index + 1},
           {"index0", index},
           {"revindex", size - index},
           {"revindex0", size - index - 1},
           {"first", i == 0},
           {"last", index + 1 == size},
           {"length", size},
           {"depth", int64_t{1}},
           {"depth0", int64_t{0}},
           {"previtem", i == 0 ? Value::MakeUndefined("previtem") : items[i - 1]},
           {"nextitem", index + 1 == size ? Value::MakeUndefined("nextitem") : items[i + 1]}});
}

Status OnlyNamed(const Arguments& arguments) {
  if (arguments.values.empty()) return OkStatus();
  return Unsupported("arguments without names");
}

Status CheckMacroArguments(const Stmt& macro, const Arguments& arguments) {
  const std::span<const std::string> parameters = std::span(macro.names).subspan(1);
  if (arguments.values.size() > parameters.size())
    return Corrupt("{} arguments for the {} parameters of '{}'", arguments.values.size(),
                   parameters.size(), macro.names[0]);
  for (const auto& [name, value] : arguments.named) {
    const bool is_caller = macro.takes_caller && name == std::string_view("caller");
    if (!is_caller && std::ranges::find(parameters, name.text) == parameters.end())
      return Corrupt("the macro '{}' has no parameter '{}'", macro.names[0], name.text);
  }
  return OkStatus();
}

// Charges for the items of a list or dict literal.
Status ChargeItems(Budget& budget, size_t items) {
  return budget.Charge(items * Budget::kOwnerBytes);
}

// One rendering. Not thread-safe. An error ends it: scopes, depth and output are not restored then.
class Renderer {
 public:
  Renderer(std::string_view source, const Dict& variables, std::optional<int64_t> now)
      : source_(source), now_(now) {
    PushScope(0);
    Dict& outermost = scopes_[0].values;
    for (const std::string_view name : kFunctions)
      outermost.emplace_back(std::string(name), MakeFunction(name));
    if (now) outermost.emplace_back("strftime_now", MakeFunction("strftime_now"));
    for (const auto& row : variables) outermost.push_back(row);
    PushScope();
  }

  Result<std::string> Run(const std::vector<Stmt>& body) {
    NXDKIT_TRY(Body(body));
    return std::move(out_);
  }

 private:
  enum class Flow { kOn, kBreak, kContinue };

  Error Located(Error error, size_t offset) const {
    if (error.offset()) return error;
    return ErrorAt(error.code(), source_, offset, error.message()).hint(error.hint());
  }

  void PushScope() { PushScope(scopes_.size() - 1); }
  void PushScope(size_t parent) { scopes_.push_back({{}, parent, ++last_number_}); }

  // Names are looked up from the innermost scope outwards: in a macro, through the scopes around
  // its definition. The outermost scope has the given variables.
  Result<const Value*> Look(std::string_view name) {
    for (size_t i = scopes_.size() - 1;; i = scopes_[i].parent) {
      const Dict& scope = scopes_[i].values;
      NXDKIT_TRY(budget_.Charge(scope.size()));
      const auto found = std::find_if(scope.rbegin(), scope.rend(),
                                      [&](const auto& row) { return row.first == name; });
      if (found != scope.rend()) return &found->second;
      if (i == 0) return nullptr;
    }
  }

  // values[key] = value
  Status Put(Dict& values, const Key& key, Value value) {
    NXDKIT_TRY(budget_.Charge(values.size()));
    const auto found =
        std::ranges::find_if(values, [&](const auto& row) { return row.first == key; });
    if (found == values.end())
      values.emplace_back(key, std::move(value));
    else
      found->second = std::move(value);
    return OkStatus();
  }

  // Sets it in the innermost scope.
  Status Set(const std::string& name, Value value) {
    return Put(scopes_.back().values, name, std::move(value));
  }

  Status Print(std::string_view text) {
    NXDKIT_TRY(budget_.Charge(text.size()));
    if (out_.size() + text.size() > kMaxOutputBytes)
      return OverLimit("more than {} bytes of output", kMaxOutputBytes);
    out_ += text;
    return OkStatus();
  }

  Result<Flow> Body(const std::vector<Stmt>& body) {
    for (const Stmt& statement : body) {
      Result<Flow> flow = Statement(statement);
      if (!flow.ok()) return Located(std::move(flow).error(), statement.offset);
      if (*flow != Flow::kOn) return flow;
    }
    return Flow::kOn;
  }

  Result<Flow> ScopedBody(const std::vector<Stmt>& body) {
    PushScope();
    NXDKIT_ASSIGN(const Flow flow, Body(body));
    scopes_.pop_back();
    return flow;
  }

  // One level deeper, and one step; the caller returns by --depth_.
  Status Descend() {
    if (++depth_ > kMaxRenderDepth)
      return OverLimit("the template goes deeper than {} levels", kMaxRenderDepth);
    return budget_.Charge();
  }

  Result<Flow> Statement(const Stmt& statement) {
    NXDKIT_TRY(Descend());
    NXDKIT_ASSIGN(const Flow flow, StatementHere(statement));
    --depth_;
    return flow;
  }

  Result<Flow> StatementHere(const Stmt& statement) {
    switch (statement.kind) {
      case StmtKind::kText:
        NXDKIT_TRY(Print(statement.text));
        return Flow::kOn;
      case StmtKind::kPrint: {
        NXDKIT_ASSIGN(const Value value, Evaluate(*statement.expr));
        NXDKIT_TRY(PrintValue(value));
        return Flow::kOn;
      }
      case StmtKind::kIf: {
        NXDKIT_ASSIGN(const Value condition, Evaluate(*statement.expr));
        return Body(IsTrue(condition) ? statement.body : statement.otherwise);
      }
      case StmtKind::kFor:
        return For(statement);
      case StmtKind::kSet: {
        NXDKIT_ASSIGN(Value value, Evaluate(*statement.expr));
        NXDKIT_TRY(SetTargets(statement.names, value));
        return Flow::kOn;
      }
      case StmtKind::kSetMember:
        NXDKIT_TRY(SetMember(statement));
        return Flow::kOn;
      case StmtKind::kSetBlock:
        NXDKIT_TRY(SetBlock(statement));
        return Flow::kOn;
      case StmtKind::kMacro:
        NXDKIT_TRY(Set(statement.names[0], MakeMacro(statement)));
        return Flow::kOn;
      case StmtKind::kScope:
        return ScopedBody(statement.body);
      case StmtKind::kFilter: {
        NXDKIT_ASSIGN(const Value text, FilteredBody(statement, statement.names[0]));
        NXDKIT_TRY(PrintValue(text));
        return Flow::kOn;
      }
      case StmtKind::kCall: {
        NXDKIT_ASSIGN(const Value text, Call(*statement.expr, &statement));
        NXDKIT_TRY(PrintValue(text));
        return Flow::kOn;
      }
      case StmtKind::kBreak:
        return Flow::kBreak;
      case StmtKind::kContinue:
        return Flow::kContinue;
    }
    return Error(Errc::kInternal, "a statement of no kind");
  }

  Status PrintValue(const Value& value) {
    NXDKIT_ASSIGN(const std::string text, ToText(value, budget_));
    return Print(text);
  }

  // The output of the body, as `name`, through the filters of the statement.
  Result<Value> FilteredBody(const Stmt& statement, const std::string& name) {
    NXDKIT_ASSIGN(std::string body, Captured(statement.body));
    PushScope();
    NXDKIT_TRY(Set(name, std::move(body)));
    NXDKIT_ASSIGN(Value filtered, Evaluate(*statement.expr));
    scopes_.pop_back();
    return filtered;
  }

  Status SetBlock(const Stmt& statement) {
    if (statement.expr != nullptr) {
      NXDKIT_ASSIGN(Value filtered, FilteredBody(statement, statement.names[1]));
      return Set(statement.names[0], std::move(filtered));
    }
    NXDKIT_ASSIGN(std::string text, Captured(statement.body));
    return Set(statement.names[0], std::move(text));
  }

  Value MakeMacro(const Stmt& statement) const {
    return Value(std::make_shared<const Function>(
        Function{statement.names[0], &statement, scopes_.size() - 1, scopes_.back().number}));
  }

  Status SetTargets(const std::vector<std::string>& names, const Value& value) {
    if (names.size() == 1) return Set(names[0], value);
    NXDKIT_ASSIGN(const List items, Iterate(value, budget_));
    if (items.size() != names.size())
      return Corrupt("{} values for {} names", items.size(), names.size());
    for (size_t i = 0; i < names.size(); ++i) NXDKIT_TRY(Set(names[i], items[i]));
    return OkStatus();
  }

  Status SetMember(const Stmt& statement) {
    NXDKIT_ASSIGN(Value value, Evaluate(*statement.expr));
    const std::string& member = statement.names[1];
    NXDKIT_ASSIGN(const Value* object, Look(statement.names[0]));
    if (object == nullptr || object->space() == nullptr)
      return Corrupt("'{}' is not a namespace", statement.names[0]);
    if (member.starts_with('_')) return Unsupported("the attribute '{}'", member);
    return Put(object->space()->values, member, std::move(value));
  }

  Result<std::string> Captured(const std::vector<Stmt>& body) {
    std::string outer = std::exchange(out_, std::string());
    NXDKIT_TRY(ScopedBody(body));
    return std::exchange(out_, std::move(outer));
  }

  // The condition of a loop sees the names of the loop, and filters before the loop counts.
  Result<List> LoopItems(const Stmt& loop) {
    NXDKIT_ASSIGN(const Value value, Evaluate(*loop.expr));
    NXDKIT_ASSIGN(List items, Iterate(value, budget_));
    if (loop.condition == nullptr) return items;
    List kept;
    for (Value& item : items) {
      PushScope();
      NXDKIT_TRY(SetTargets(loop.names, item));
      NXDKIT_ASSIGN(const Value passes, Evaluate(*loop.condition));
      scopes_.pop_back();
      if (IsTrue(passes)) kept.push_back(std::move(item));
    }
    return kept;
  }

  Result<Flow> For(const Stmt& loop) {
    NXDKIT_ASSIGN(const List items, LoopItems(loop));
    if (items.empty()) return ScopedBody(loop.otherwise);
    for (size_t i = 0; i < items.size(); ++i) {
      NXDKIT_TRY(budget_.Charge());
      PushScope();
      NXDKIT_TRY(Set("loop", LoopVariable(items, i)));
      NXDKIT_TRY(SetTargets(loop.names, items[i]));
      NXDKIT_ASSIGN(const Flow flow, Body(loop.body));
      scopes_.pop_back();
      if (flow == Flow::kBreak) break;
    }
    return Flow::kOn;
  }

  Result<Value> Evaluate(const Expr& expr) {
    NXDKIT_TRY(Descend());
    Result<Value> value = EvaluateHere(expr);
    --depth_;
    if (value.ok() && value->depth() > kMaxValueDepth)
      value = OverLimit("a value is nested deeper than {} levels", kMaxValueDepth);
    if (!value.ok()) return Located(std::move(value).error(), expr.offset);
    return value;
  }

  Result<Value> EvaluatePart(const Expr& expr, size_t part) {
    const ExprPtr& wanted = expr.parts[part];
    return wanted == nullptr ? Result<Value>(Value()) : Evaluate(*wanted);
  }

  Result<Value> EvaluateHere(const Expr& expr) {
    switch (expr.kind) {
      case ExprKind::kLiteral:
        return expr.value;
      case ExprKind::kName: {
        NXDKIT_ASSIGN(const Value* found, Look(expr.name));
        if (found != nullptr) return *found;
        if (std::ranges::find(kMissing, expr.name) != std::end(kMissing))
          return Unsupported("'{}'", expr.name);
        return Value::MakeUndefined(expr.name);
      }
      case ExprKind::kList:
        return ListOf(expr, Form::kPlain);
      case ExprKind::kTuple:
        return ListOf(expr, Form::kTuple);
      case ExprKind::kDict:
        return DictOf(expr);
      case ExprKind::kCompare:
        return CompareChain(expr);
      case ExprKind::kIf:
        return Conditional(expr);
      case ExprKind::kCall:
        return Call(expr, nullptr);
      default:
        break;
    }
    NXDKIT_ASSIGN(const Value first, EvaluatePart(expr, 0));
    switch (expr.kind) {
      case ExprKind::kAttribute:
        return Attribute(first, expr.name);
      case ExprKind::kNot:
        return Value(!IsTrue(first));
      case ExprKind::kNegative:
        return Negate(first);
      case ExprKind::kPositive:
        return Binary("+", first, Value(int64_t{0}), budget_);
      case ExprKind::kAnd:
        return IsTrue(first) ? EvaluatePart(expr, 1) : Result<Value>(first);
      case ExprKind::kOr:
        return IsTrue(first) ? Result<Value>(first) : EvaluatePart(expr, 1);
      case ExprKind::kFilter: {
        NXDKIT_ASSIGN(const Arguments arguments, ArgumentsOf(expr));
        return ApplyFilter(expr.name, first, arguments, budget_);
      }
      case ExprKind::kTest: {
        NXDKIT_ASSIGN(const Arguments arguments, ArgumentsOf(expr));
        NXDKIT_ASSIGN(const bool passes, ApplyTest(expr.name, first, arguments, budget_));
        return Value(passes);
      }
      default:
        break;
    }
    NXDKIT_ASSIGN(const Value second, EvaluatePart(expr, 1));
    if (expr.kind == ExprKind::kIndex) return Index(first, second, budget_);
    if (expr.kind == ExprKind::kBinary) return Binary(expr.name, first, second, budget_);
    NXDKIT_ASSIGN(const Value third, EvaluatePart(expr, 2));
    NXDKIT_ASSIGN(const Value fourth, EvaluatePart(expr, 3));
    return Slice(first, second, third, fourth, budget_);
  }

  Result<Value> ListOf(const Expr& expr, Form form) {
    NXDKIT_TRY(ChargeItems(budget_, 1));
    List list;
    for (const ExprPtr& part : expr.parts) {
      NXDKIT_ASSIGN(Value item, Evaluate(*part));
      list.push_back(std::move(item));
    }
    return Value(std::move(list), form);
  }

  Result<Value> DictOf(const Expr& expr) {
    NXDKIT_TRY(ChargeItems(budget_, 1 + expr.parts.size() / 2));
    Dict dict;
    for (size_t i = 0; i + 1 < expr.parts.size(); i += 2) {
      NXDKIT_ASSIGN(const Value key, Evaluate(*expr.parts[i]));
      NXDKIT_ASSIGN(Value value, Evaluate(*expr.parts[i + 1]));
      const std::optional<Key> hashed = Key::Of(key);
      if (!hashed) return Unsupported("a dict with {} for a key", TypeName(key));
      NXDKIT_TRY(Put(dict, *hashed, std::move(value)));
    }
    return Value(std::move(dict));
  }

  // a < b < c is a < b and b < c, with b evaluated once.
  Result<Value> CompareChain(const Expr& expr) {
    NXDKIT_ASSIGN(Value left, Evaluate(*expr.parts[0]));
    for (size_t i = 0; i < expr.names.size(); ++i) {
      NXDKIT_ASSIGN(Value right, Evaluate(*expr.parts[i + 1]));
      NXDKIT_ASSIGN(const bool holds, Compare(expr.names[i], left, right, budget_));
      if (!holds) return Value(false);
      left = std::move(right);
    }
    return Value(true);
  }

  Result<Value> Conditional(const Expr& expr) {
    NXDKIT_ASSIGN(const Value condition, Evaluate(*expr.parts[1]));
    if (IsTrue(condition)) return Evaluate(*expr.parts[0]);
    if (expr.parts[2] != nullptr) return Evaluate(*expr.parts[2]);
    return Value::MakeUndefined("the inline if without else");
  }

  Result<Arguments> ArgumentsOf(const Expr& expr) {
    Arguments arguments;
    for (size_t i = 1; i < expr.parts.size(); ++i) {
      if (expr.parts[i]->kind == ExprKind::kSpread) {
        NXDKIT_TRY(Spread(*expr.parts[i], arguments));
        continue;
      }
      NXDKIT_ASSIGN(Value value, Evaluate(*expr.parts[i]));
      arguments.values.push_back(std::move(value));
    }
    for (const auto& [name, part] : expr.named) {
      NXDKIT_ASSIGN(Value value, Evaluate(*part));
      if (Find(arguments.named, name) != nullptr)
        return Corrupt("the argument '{}' is given twice", name);
      NXDKIT_TRY(budget_.Charge(arguments.named.size()));
      arguments.named.emplace_back(name, std::move(value));
    }
    return arguments;
  }

  // The items of *list, and the entries of **dict.
  Status Spread(const Expr& spread, Arguments& arguments) {
    NXDKIT_ASSIGN(const Value value, Evaluate(*spread.parts[0]));
    if (spread.name == "*") {
      NXDKIT_ASSIGN(const List items, Iterate(value, budget_));
      arguments.values.insert(arguments.values.end(), items.begin(), items.end());
      return OkStatus();
    }
    if (value.dict() == nullptr)
      return Corrupt("arguments from {}, expected a dict", TypeName(value));
    for (const auto& [name, item] : *value.dict()) {
      NXDKIT_TRY(budget_.Charge(arguments.named.size()));
      if (name.other != nullptr)
        return Corrupt("{} for the name of an argument", TypeName(*name.other));
      if (FindKey(arguments.named, name) != nullptr)
        return Corrupt("the argument '{}' is given twice", name.text);
      arguments.named.emplace_back(name, item);
    }
    return OkStatus();
  }

  // `block`, if not nullptr, is the enclosing call block.
  Result<Value> Call(const Expr& expr, const Stmt* block) {
    const Expr& callee = *expr.parts[0];
    if (callee.kind == ExprKind::kAttribute) {
      NXDKIT_ASSIGN(const Value object, Evaluate(*callee.parts[0]));
      NXDKIT_ASSIGN(const Arguments arguments, ArgumentsOf(expr));
      const Value* member =
          object.space() == nullptr ? nullptr : Find(object.space()->values, callee.name);
      if (member != nullptr || block != nullptr)
        return Unsupported("a call of the attribute '{}'", callee.name);
      return CallMethod(object, callee.name, arguments, budget_);
    }
    NXDKIT_ASSIGN(const Value function, Evaluate(callee));
    if (const Undefined* undefined = function.undefined()) {
      if (*undefined->name == "strftime_now")
        return Corrupt("'strftime_now' is undefined: the template prints a date, and none is given")
            .hint("data.template_date=YYYY-MM-DD gives one");
      return Corrupt("'{}' is undefined", *undefined->name);
    }
    if (function.function() == nullptr) return Corrupt("{} cannot be called", TypeName(function));
    NXDKIT_ASSIGN(Arguments arguments, ArgumentsOf(expr));
    if (block != nullptr) {
      if (function.function()->macro == nullptr || !function.function()->macro->takes_caller)
        return Corrupt("'{}' does not take a block to call", function.function()->name);
      if (Find(arguments.named, "caller") != nullptr)
        return Corrupt("the argument 'caller' is given twice");
      arguments.named.emplace_back("caller", MakeMacro(*block));
    }
    return CallFunction(*function.function(), arguments);
  }

  Result<Value> CallFunction(const Function& function, const Arguments& arguments) {
    NXDKIT_TRY(budget_.Charge());
    if (function.macro != nullptr) {
      NXDKIT_TRY(CheckMacroArguments(*function.macro, arguments));
      return CallMacro(function, arguments);
    }
    if (function.name == "namespace") return MakeNamespace(arguments);
    if (function.name == "range") return MakeRange(arguments, budget_);
    if (function.name == "strftime_now") return FormatTime(arguments, *now_);
    if (function.name == "dict") {
      NXDKIT_TRY(OnlyNamed(arguments));
      NXDKIT_TRY(ChargeItems(budget_, arguments.named.size()));
      return Value(arguments.named);
    }
    return RaisedError(arguments, budget_);
  }

  Result<Value> MakeNamespace(const Arguments& arguments) {
    NXDKIT_TRY(OnlyNamed(arguments));
    NXDKIT_TRY(ChargeItems(budget_, 1 + arguments.named.size()));
    for (const auto& [name, value] : arguments.named)
      if (name.text.starts_with('_')) return Unsupported("the attribute '{}'", name.text);
    return Value(&namespaces_.emplace_back(Namespace{arguments.named}));
  }

  Status BindParameters(const Stmt& macro, const Arguments& arguments) {
    const size_t count = macro.names.size() - 1;
    const size_t without_default = count - macro.defaults.size();
    for (size_t i = 0; i < count; ++i) {
      const std::string& name = macro.names[i + 1];
      const Value* given = arguments.Get(i, name);
      Value value = given != nullptr ? *given : Value::MakeUndefined(name);
      if (given == nullptr && i >= without_default)
        NXDKIT_TRY(Evaluate(*macro.defaults[i - without_default]).To(value));
      NXDKIT_TRY(Set(name, std::move(value)));
    }
    if (!macro.takes_caller) return OkStatus();
    const Value* caller = Find(arguments.named, "caller");
    return Set("caller", caller != nullptr ? *caller : Value::MakeUndefined("caller"));
  }

  Result<Value> CallMacro(const Function& function, const Arguments& arguments) {
    if (function.scope >= scopes_.size() || scopes_[function.scope].number != function.scope_number)
      return Unsupported("the macro '{}' outside of the block that defined it", function.name);
    PushScope(function.scope);
    NXDKIT_TRY(BindParameters(*function.macro, arguments));
    NXDKIT_ASSIGN(std::string text, Captured(function.macro->body));
    scopes_.pop_back();
    return Value(std::move(text));
  }

  std::string_view source_;
  std::optional<int64_t> now_;
  Budget budget_;
  std::vector<Scope> scopes_;
  uint64_t last_number_ = 0;
  std::deque<Namespace> namespaces_;
  std::string out_;
  int depth_ = 0;
};

}  // namespace

Result<std::string> Render(std::string_view source, const std::vector<Stmt>& body,
                           const Dict& variables, std::optional<int64_t> now) {
  return Renderer(source, variables, now).Run(body);
}

}  // namespace nxdkit::trainer::jinja
