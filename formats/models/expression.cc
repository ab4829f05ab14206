#include "formats/models/expression.h"

#include <algorithm>
#include <optional>

#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::models {
namespace {

constexpr size_t kMaxOperations = 4096;
constexpr uint64_t kMaxLooked = 50'000'000;  // in all comparisons with one config

struct Operator {
  std::string_view word;
  Code code;
  int binds;  // tighter operators first
};
constexpr Operator kOperators[] = {
    {"else", Code::kOtherwise, 1}, {"if", Code::kIf, 2},        {"??", Code::kElse, 3},
    {"or", Code::kOr, 4},          {"and", Code::kAnd, 5},      {"==", Code::kEqual, 7},
    {"!=", Code::kUnequal, 7},     {"<=", Code::kLessEqual, 7}, {">=", Code::kMoreEqual, 7},
    {"<", Code::kLess, 7},         {">", Code::kMore, 7},       {"in", Code::kIn, 7},
    {"ends", Code::kEnds, 7},      {"+", Code::kAdd, 8},        {"-", Code::kSubtract, 8},
    {"**", Code::kPower, 10},      {"*", Code::kMultiply, 9},   {"/", Code::kDivide, 9},
    {"%", Code::kRemainder, 9},
};
constexpr int kNotBinds = 6;

bool IsWordStart(char c) { return c == '_' || (IsAlnum(c) && !IsDigit(c)); }
bool IsWord(char c) { return c == '_' || IsAlnum(c); }

// Turns the text into operations, with a stack of operators that wait for their right side.
class Parser {
 public:
  Parser(std::string_view text, Scope& scope, const Expected& expected)
      : text_(text), scope_(scope), expected_(expected) {
    out_.source = text;
  }

  Result<Expression> Parse() {
    for (Skip(); at_ < text_.size(); Skip()) {
      NXDKIT_TRY(wants_operand_ ? Operand() : AfterOperand());
      if (out_.operations.size() + waiting_.size() > kMaxOperations)
        return Wrong("the expression is too long");
    }
    if (wants_operand_) return Wrong("something is missing here");
    while (!waiting_.empty()) {
      if (waiting_.back().opens) return Wrong("a bracket is not closed");
      Pop();
    }
    return std::move(out_);
  }

 private:
  struct Waiting {
    char opens = 0;  // '(' or '[', which a bracket closes
    Code code = Code::kNumber;
    int binds = 0;
    bool calls = false;  // its code is a function's, which is called when the bracket closes
    bool comma = false;  // its second argument has begun
  };

  Error Wrong(std::string_view what) const { return Corrupt("{}", what).at(at_); }
  void Skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool Take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    const size_t end = at_ + word.size();
    if (IsWordStart(word.front()) && end < text_.size() && IsWord(text_[end])) return false;
    at_ = end;
    return true;
  }
  void Emit(Code code, int64_t number = 0) { out_.operations.push_back({code, number}); }
  void Pop() {
    Emit(waiting_.back().code);
    waiting_.pop_back();
  }

  Status Operand() {
    const char c = text_[at_];
    if (c == '(') {
      ++at_;
      waiting_.push_back({.opens = '('});
      return OkStatus();
    }
    if (Take("not")) {
      waiting_.push_back({.code = Code::kNot, .binds = kNotBinds});
      return OkStatus();
    }
    if (IsWordStart(c)) return Word();
    wants_operand_ = false;
    if (Take("[]")) {
      Emit(Code::kList, AddList(Json::array()));
      return OkStatus();
    }
    if (IsDigit(c)) return Digits();
    if (c == '"') return Quoted();
    return Wrong("a name, a number or a text is expected here");
  }

  Status Digits() {
    const size_t from = at_;
    while (at_ < text_.size() && IsDigit(text_[at_])) ++at_;
    const std::optional<int64_t> number = ParseNumber<int64_t>(text_.substr(from, at_ - from));
    if (!number) return Wrong("the number is over 64 bits");
    Emit(Code::kNumber, *number);
    return OkStatus();
  }

  Status Quoted() {
    const size_t end = text_.find('"', at_ + 1);
    if (end == std::string_view::npos) return Wrong("the text is not closed");
    EmitText(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return OkStatus();
  }

  Status Word() {
    const std::string_view word = TakeName();
    if (word == "len" && TakeBracket()) {
      waiting_.push_back({.opens = '(', .code = Code::kLength, .calls = true});
      return OkStatus();
    }
    if (word == "agree" && TakeBracket()) {
      waiting_.push_back({.opens = '(', .code = Code::kAgree, .calls = true});
      return OkStatus();
    }
    wants_operand_ = false;
    if (word == "true" || word == "false") {
      Emit(Code::kNumber, word == "true" ? 1 : 0);
    } else if (AfterComparison() && !scope_.Defines(word)) {
      if (After(Code::kIn) || After(Code::kNotIn))
        WordsOrKey(word);
      else
        EmitText(word);
    } else {
      Emit(Code::kSymbol, scope_.Find(word, InLength() ? Expected() : expected_));
    }
    return OkStatus();
  }

  // The operand of len is a list or an object.
  bool InLength() const {
    return !waiting_.empty() && waiting_.back().calls && waiting_.back().code == Code::kLength;
  }

  // Takes a.b.c, as long as words follow the dots.
  std::string_view TakeName() {
    const size_t from = at_;
    do {
      if (text_[at_] == '.') ++at_;
      while (at_ < text_.size() && IsWord(text_[at_])) ++at_;
    } while (at_ + 1 < text_.size() && text_[at_] == '.' && IsWordStart(text_[at_ + 1]));
    return text_.substr(from, at_ - from);
  }

  bool TakeBracket() {
    Skip();
    return Take("(");
  }

  bool After(Code code) const { return !waiting_.empty() && waiting_.back().code == code; }
  bool AfterComparison() const {
    return After(Code::kEqual) || After(Code::kUnequal) || After(Code::kIn) ||
           After(Code::kNotIn) || After(Code::kEnds);
  }

  // "a,b,c" is a list of texts; a single word is a key that holds a list.
  void WordsOrKey(std::string_view word) {
    if (at_ >= text_.size() || text_[at_] != ',') {
      Emit(Code::kSymbol, scope_.Find(word, {}));
      return;
    }
    Json list = Json::array({word});
    while (at_ + 1 < text_.size() && text_[at_] == ',' && IsWordStart(text_[at_ + 1])) {
      ++at_;
      list.push_back(TakeName());
    }
    Emit(Code::kList, AddList(std::move(list)));
  }

  int64_t AddList(Json list) {
    out_.lists.push_back(std::move(list));
    return static_cast<int64_t>(out_.lists.size()) - 1;
  }

  void EmitText(std::string_view text) {
    Emit(Code::kText, static_cast<int64_t>(out_.texts.size()));
    out_.texts.emplace_back(text);
  }

  Status AfterOperand() {
    if (Take("[")) {
      waiting_.push_back({.opens = '['});
      wants_operand_ = true;
      return OkStatus();
    }
    if (Take(")")) return CloseBracket('(');
    if (Take("]")) return CloseBracket('[');
    if (Take(",")) return Comma();
    if (Take("not")) {
      Skip();
      if (!Take("in")) return Wrong("\"in\" is expected here");
      return AddOperator({"in", Code::kNotIn, 7});
    }
    for (const Operator& row : kOperators)
      if (Take(row.word)) return AddOperator(row);
    return Wrong("an operator is expected here");
  }

  Status AddOperator(const Operator& row) {
    // a ** b ** c is a ** (b ** c), and so is ??.
    const bool right = row.code == Code::kPower || row.code == Code::kElse;
    while (!waiting_.empty() && !waiting_.back().opens &&
           waiting_.back().binds >= row.binds + (right ? 1 : 0))
      Pop();
    waiting_.push_back({.code = row.code, .binds = row.binds});
    wants_operand_ = true;
    return OkStatus();
  }

  Status PopTo(char opens) {
    while (!waiting_.empty() && !waiting_.back().opens) Pop();
    if (waiting_.empty() || waiting_.back().opens != opens)
      return Wrong("the bracket was not opened");
    return OkStatus();
  }

  Status Comma() {
    NXDKIT_TRY(PopTo('('));
    Waiting& open = waiting_.back();
    if (!open.calls || open.code != Code::kAgree || open.comma)
      return Wrong("no further argument is allowed here");
    open.comma = wants_operand_ = true;
    return OkStatus();
  }

  Status CloseBracket(char opens) {
    NXDKIT_TRY(PopTo(opens));
    const Waiting open = waiting_.back();
    waiting_.pop_back();
    if (opens == '[') {
      Emit(Code::kIndex);
    } else if (open.calls) {
      if (open.code == Code::kAgree && !open.comma) return Wrong("agree takes two keys");
      Emit(open.code);
    }
    return OkStatus();
  }

  std::string_view text_;
  Scope& scope_;
  Expected expected_;
  Expression out_;
  std::vector<Waiting> waiting_;
  size_t at_ = 0;
  bool wants_operand_ = true;
};

std::string_view Spelling(Code code) {
  for (const Operator& row : kOperators)
    if (row.code == code) return row.word;
  return code == Code::kNotIn ? "not in" : code == Code::kIndex ? "[ ]" : "";
}

}  // namespace

int64_t Expression::OnlySymbol() const {
  const bool only = operations.size() == 1 && operations[0].code == Code::kSymbol;
  return only ? operations[0].number : -1;
}

bool Scope::Defines(std::string_view name) const {
  return std::ranges::any_of(open_, [&](uint32_t i) { return symbols_[i].name == name; });
}

uint32_t Scope::Find(std::string_view name, const Expected& expected) {
  for (size_t i = open_.size(); i-- > 0;)
    if (symbols_[open_[i]].name == name) return open_[i];
  for (uint32_t i = 0; i < symbols_.size(); ++i)
    if (symbols_[i].kind == Symbol::Kind::kKey && symbols_[i].name == name &&
        symbols_[i].expected == expected)
      return i;
  symbols_.push_back({Symbol::Kind::kKey, std::string(name), expected, std::string(name)});
  return static_cast<uint32_t>(symbols_.size()) - 1;
}

uint32_t Scope::Add(Symbol::Kind kind, std::string name) {
  symbols_.push_back({kind, std::move(name), {}, ""});
  open_.push_back(static_cast<uint32_t>(symbols_.size()) - 1);
  return open_.back();
}

void Scope::Close(uint32_t counter) { std::erase(open_, counter); }

void Scope::ComesFrom(uint32_t let, const Expression& expression) {
  for (const Operation& step : expression.operations) {
    if (step.code != Code::kSymbol) continue;
    const Symbol& symbol = symbols_[static_cast<size_t>(step.number)];
    symbols_[let].origin = symbol.kind == Symbol::Kind::kKey ? symbol.name : symbol.origin;
    return;
  }
}

Result<Expression> ParseExpression(std::string_view text, Scope& scope, const Expected& expected) {
  return Parser(text, scope, expected).Parse();
}

Evaluator::Evaluator(const std::vector<Symbol>& symbols, const Json& config) : symbols_(symbols) {
  for (uint32_t i = 0; i < symbols.size(); ++i)
    values_.push_back(symbols[i].kind == Symbol::Kind::kKey ? Read(symbols[i], i, config)
                                                            : Value());
}

Value Evaluator::Faulty(std::string member, std::string text) {
  faults_.push_back({std::move(member), std::move(text)});
  return {Value::Kind::kFault, static_cast<int64_t>(faults_.size()) - 1, {}, nullptr, false};
}

namespace {

// Whether it is above the signed 64-bit range, and would be read as negative.
bool IsOver64Bits(const Json& json) { return json.is_number_unsigned() && json.get<int64_t>() < 0; }

}  // namespace

Value Evaluator::FromJson(const Json& json) {
  if (json.is_boolean()) return {Value::Kind::kNumber, json.get<bool>() ? 1 : 0, {}, nullptr, true};
  if (json.is_number_integer() && !IsOver64Bits(json)) return Value::Of(json.get<int64_t>());
  if (json.is_string())
    return {Value::Kind::kText, 0, json.get_ref<const std::string&>(), nullptr, false};
  if (json.is_structured()) return {Value::Kind::kList, 0, {}, &json, false};
  return {};
}

namespace {

std::string ExpectedText(const Expected& expected) {
  if (expected.type == Expected::Type::kFlag) return "true or false";
  if (expected.type == Expected::Type::kInteger)
    return fmt::format("an integer from {} to {}", expected.least, expected.most);
  return "an integer";
}

bool Fits(const Json& json, const Expected& expected) {
  if (expected.type == Expected::Type::kFlag) return json.is_boolean();
  if (expected.type == Expected::Type::kInteger)
    return json.is_number_integer() && !IsOver64Bits(json) &&
           json.get<int64_t>() >= expected.least && json.get<int64_t>() <= expected.most;
  return !json.is_number_float() && !IsOver64Bits(json);
}

}  // namespace

Value Evaluator::Read(const Symbol& symbol, uint32_t number, const Json& config) {
  const Json* at = &config;
  for (const std::string_view part : Split(symbol.name, '.')) {
    at = at->is_object() ? JsonFind(*at, part) : nullptr;
    if (!at || at->is_null()) return {Value::Kind::kMissing, number, {}, nullptr, false};
  }
  if (!Fits(*at, symbol.expected))
    return Faulty(symbol.name, fmt::format("found {}, expected {}", JsonExcerpt(*at),
                                           ExpectedText(symbol.expected)));
  return FromJson(*at);
}

Value Evaluator::Push(const Expression& expression, const Operation& operation) {
  const auto index = static_cast<size_t>(operation.number);
  if (operation.code == Code::kNumber) return Value::Of(operation.number);
  if (operation.code == Code::kSymbol) return values_[index];
  if (operation.code == Code::kText)
    return {Value::Kind::kText, 0, expression.texts[index], nullptr, false};
  return {Value::Kind::kList, 0, {}, &expression.lists[index], false};
}

Value Evaluator::Run(const Expression& expression) {
  const size_t faults = faults_.size();
  const Value value = Steps(expression);
  // A fault that the other side of "or" made irrelevant.
  if (value.kind != Value::Kind::kFault) faults_.resize(faults);
  return value;
}

Value Evaluator::Steps(const Expression& expression) {
  stack_.clear();
  for (size_t step = 0; step < expression.operations.size(); ++step) {
    const Operation& operation = expression.operations[step];
    if (operation.code <= Code::kSymbol) {
      stack_.push_back(Push(expression, operation));
    } else if (operation.code == Code::kLength || operation.code == Code::kNot) {
      stack_.back() = Unary(operation.code, stack_.back(), expression);
    } else {
      const Value right = stack_.back();
      stack_.pop_back();
      stack_.back() = Binary(expression, step, stack_.back(), right);
    }
  }
  return stack_.back();
}

Value Evaluator::Unary(Code code, const Value& a, const Expression& expression) {
  if (a.kind == Value::Kind::kMissing || a.kind == Value::Kind::kFault) return a;
  if (code == Code::kNot && a.is_number()) return Value::Of(a.number == 0 ? 1 : 0);
  if (code == Code::kLength && a.kind == Value::Kind::kList)
    return Value::Of(static_cast<int64_t>(a.list->size()));
  return Faulty("", fmt::format("in \"{}\": {}", expression.source,
                                code == Code::kNot ? "not is for a number or a flag"
                                                   : "len is for a list or an object"));
}

namespace {

bool IsOpen(const Value& value) {
  return value.kind == Value::Kind::kMissing || value.kind == Value::Kind::kFault;
}

// The result of operators that handle missing values themselves.
std::optional<Value> Chosen(Code code, const Value& a, const Value& b) {
  if (code == Code::kElse) return a.kind == Value::Kind::kMissing ? b : a;
  if (code == Code::kOtherwise) return a.kind == Value::Kind::kNothing ? b : a;
  if (code == Code::kIf) {
    if (b.is_number()) return b.number != 0 ? a : Value();
    return b.kind == Value::Kind::kMissing ? Value() : b;
  }
  if (code != Code::kAnd && code != Code::kOr) return std::nullopt;
  // One side alone, if it decides.
  const bool decides = code == Code::kOr;
  for (const Value* side : {&a, &b})
    if (side->is_number() && (side->number != 0) == decides) return Value::Of(decides ? 1 : 0);
  if (IsOpen(a)) return a;
  return IsOpen(b) ? b : Value::Of(decides ? 0 : 1);
}

// The name of the symbol that an operation pushes; "" for other operations.
std::string OriginOf(const std::vector<Symbol>& symbols, const Operation& operation) {
  if (operation.code != Code::kSymbol) return "";
  return symbols[static_cast<size_t>(operation.number)].origin;
}

}  // namespace

Value Evaluator::Binary(const Expression& expression, size_t step, const Value& a, const Value& b) {
  const Code code = expression.operations[step].code;
  if (const std::optional<Value> chosen = Chosen(code, a, b)) return *chosen;
  if (code == Code::kAgree) return Disagreement(expression, step, a, b);
  if (IsOpen(a)) return a;
  if (IsOpen(b)) return b;
  if (code == Code::kEqual || code == Code::kUnequal || code == Code::kEnds)
    return Compare(code, a, b);
  if ((code == Code::kIn || code == Code::kNotIn) && b.kind == Value::Kind::kList) {
    const Value within = Within(a, *b.list, OriginOf(symbols_, expression.operations[step - 1]));
    return within.is_number() && code == Code::kNotIn ? Value::Of(1 - within.number) : within;
  }
  if (code == Code::kIndex && a.kind == Value::Kind::kList && b.is_number()) {
    const auto index = static_cast<size_t>(b.number);
    if (a.list->is_array() && b.number >= 0 && index < a.list->size())
      return FromJson((*a.list)[index]);
    return Faulty("", fmt::format("in \"{}\": there is no element {}, the list has {}",
                                  expression.source, b.number, a.list->size()));
  }
  if (a.is_number() && b.is_number()) return Arithmetic(expression, step, a.number, b.number);
  return Faulty("", fmt::format("in \"{}\": {} does not apply to its operands", expression.source,
                                Spelling(code)));
}

namespace {

std::string TextOf(const Value& value) {
  if (value.kind == Value::Kind::kText) return JsonExcerpt(Json(std::string(value.text)));
  return value.kind == Value::Kind::kList ? JsonExcerpt(*value.list) : std::to_string(value.number);
}

}  // namespace

// The value of the existing side; if both exist, whether they are the same.
Value Evaluator::Disagreement(const Expression& expression, size_t step, const Value& a,
                              const Value& b) {
  if (a.kind == Value::Kind::kMissing || b.kind == Value::Kind::kFault) return b;
  if (a.kind == Value::Kind::kFault || b.kind == Value::Kind::kMissing || step < 2) return a;
  const Value same = Compare(Code::kEqual, a, b);
  if (same.kind == Value::Kind::kFault || same.number != 0) return same.is_number() ? a : same;
  return Faulty(OriginOf(symbols_, expression.operations[step - 1]),
                fmt::format("found {}, and {} is {}", TextOf(b),
                            OriginOf(symbols_, expression.operations[step - 2]), TextOf(a)));
}

Value Evaluator::NotWhole(const Expression& expression, size_t step, int64_t a, int64_t b) {
  const auto name = [&](size_t back) {
    std::string origin = step >= back ? OriginOf(symbols_, expression.operations[step - back]) : "";
    return origin.empty() ? origin : origin + " ";
  };
  return Faulty("", fmt::format("\"{}\": {}{} is not a multiple of {}{}", expression.source,
                                name(2), a, name(1), b));
}

bool Evaluator::Affords(uint64_t elements) { return (looked_ += elements) <= kMaxLooked; }

Value Evaluator::LooksAtTooMuch() {
  return Faulty("",
                fmt::format("the family's text looks at over {} elements of lists", kMaxLooked));
}

Value Evaluator::Compare(Code code, const Value& a, const Value& b) {
  if (!Affords(std::min(a.text.size(), b.text.size()) / 64)) return LooksAtTooMuch();
  if (code == Code::kEnds) return Value::Of(a.text.ends_with(b.text) && !b.text.empty() ? 1 : 0);
  const bool lists = a.kind == Value::Kind::kList && b.kind == Value::Kind::kList;
  if (lists && !a.list->empty() && !b.list->empty())
    return Faulty("", "two lists are not compared; in, len and [i] look into one");
  const bool same = a.kind == b.kind && a.number == b.number && a.text == b.text &&
                    (!lists || a.list->size() == b.list->size());
  return Value::Of(same == (code == Code::kEqual) ? 1 : 0);
}

Value Evaluator::Within(const Value& a, const Json& list, const std::string& key) {
  bool within = false;
  if (!Affords(list.size())) return LooksAtTooMuch();
  for (const Json& one : list) {
    const Value element = FromJson(one);
    if (element.kind != a.kind)
      return Faulty(key, fmt::format("found {}, expected {}", JsonExcerpt(one),
                                     a.is_number() ? "an integer" : "a string"));
    within |= element.number == a.number && element.text == a.text;
  }
  return Value::Of(within ? 1 : 0);
}

Value Evaluator::Arithmetic(const Expression& expression, size_t step, int64_t a, int64_t b) {
  const Code code = expression.operations[step].code;
  int64_t out = 0;
  bool over = false;
  switch (code) {
    case Code::kLess:
      return Value::Of(a < b ? 1 : 0);
    case Code::kLessEqual:
      return Value::Of(a <= b ? 1 : 0);
    case Code::kMore:
      return Value::Of(a > b ? 1 : 0);
    case Code::kMoreEqual:
      return Value::Of(a >= b ? 1 : 0);
    case Code::kAdd:
      over = __builtin_add_overflow(a, b, &out);
      break;
    case Code::kSubtract:
      over = __builtin_sub_overflow(a, b, &out);
      break;
    case Code::kMultiply:
      over = __builtin_mul_overflow(a, b, &out);
      break;
    case Code::kDivide:
    case Code::kRemainder:
      if (b <= 0 || a < 0 || (code == Code::kDivide && a % b != 0))
        return NotWhole(expression, step, a, b);
      out = code == Code::kDivide ? a / b : a % b;
      break;
    case Code::kPower:
      over = b < 0 || b > 62;
      out = 1;
      for (int64_t i = 0; i < b && !over; ++i) over = __builtin_mul_overflow(out, a, &out);
      break;
    default:
      return Faulty(
          "", fmt::format("in \"{}\": {} is not for numbers", expression.source, Spelling(code)));
  }
  if (over) return Faulty("", fmt::format("\"{}\" is over 64 bits", expression.source));
  return Value::Of(out);
}

Result<int64_t> Evaluator::Number(const Expression& expression) {
  const Value value = Run(expression);
  if (value.is_number()) return value.number;
  return Why(value, expression);
}

Error Evaluator::Why(const Value& value, const Expression& expression) const {
  if (value.kind == Value::Kind::kMissing) {
    const Symbol& key = symbols_[static_cast<size_t>(value.number)];
    return Corrupt("missing; expected {}", ExpectedText(key.expected)).member(key.name);
  }
  if (value.kind == Value::Kind::kFault) {
    const Fault& fault = faults_[static_cast<size_t>(value.number)];
    Error error = Corrupt("{}", fault.text);
    return fault.member.empty() ? error : std::move(error).member(fault.member);
  }
  return Corrupt("\"{}\" is not a number", expression.source);
}

}  // namespace nxdkit::models
