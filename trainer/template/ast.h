// The tree of a template. Expressions and statements are each one struct with a kind: a list of
// parts whose meaning depends on the kind, so that one piece of code walks and frees them all.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/template/value.h"

namespace nxdkit::trainer::jinja {

// The treatment of white space around blocks without a sign: kTrimmed is jinja2 with trim_blocks
// and lstrip_blocks, as transformers sets it up for chat templates; kPlain is jinja2's default.
enum class Spaces { kTrimmed, kPlain };

enum class ExprKind {
  kLiteral,    // value
  kName,       // name
  kList,       // parts
  kTuple,      // parts
  kDict,       // parts: key, value, key, value, ...
  kAttribute,  // parts[0].name
  kIndex,      // parts[0][parts[1]]
  kSlice,      // parts[0][parts[1]:parts[2]:parts[3]]; nullptr for omitted parts
  kCall,       // parts[0](parts[1...], named...)
  kSpread,     // *parts[0], among the arguments of a call; **parts[0] where name is "**"
  kFilter,     // parts[0] | name(parts[1...], named...)
  kTest,       // parts[0] is name(parts[1...])
  kNot,        // not parts[0]
  kNegative,   // -parts[0]
  kPositive,   // +parts[0]
  kBinary,     // parts[0] name parts[1]: + - * / // % ~
  kAnd,        // parts[0] and parts[1]
  kOr,         // parts[0] or parts[1]
  kCompare,    // parts[0] names[0] parts[1] names[1] parts[2] ...; "in", "not in" too
  kIf,         // parts[0] if parts[1] else parts[2], which may be nullptr
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind;
  size_t offset;  // in the source, for messages
  std::string name = {};
  Value value = {};
  std::vector<ExprPtr> parts = {};
  std::vector<std::string> names = {};                      // for kCompare
  std::vector<std::pair<std::string, ExprPtr>> named = {};  // key=value in calls
  int depth = 1;                                            // of the subtree
};

enum class StmtKind {
  kText,       // text
  kPrint,      // expr
  kIf,         // expr, body, otherwise
  kFor,        // names in expr, where `condition`; body, otherwise (if nothing was looped over)
  kSet,        // names = expr
  kSetMember,  // names[0].names[1] = expr
  kSetBlock,   // names[0] = output of body, or expr with names[1] as that output
  kMacro,      // names[0](names[1...]), with `defaults` for the last of them; body
  kScope,      // body: of {% generation %}, which prints it
  kFilter,     // expr, in which names[0] is the output of body
  kCall,       // expr, a call that gets body as a macro: names[0] is "caller"
  kBreak,
  kContinue,
};

struct Stmt {
  StmtKind kind;
  size_t offset;
  std::string text = {};
  ExprPtr expr = nullptr;
  ExprPtr condition = nullptr;
  std::vector<std::string> names = {};
  std::vector<ExprPtr> defaults = {};
  std::vector<Stmt> body = {};
  std::vector<Stmt> otherwise = {};
  bool takes_caller = false;  // for kMacro and kCall: it mentions `caller`
};

// A macro, or a built-in function (`macro` is nullptr).
struct Function {
  std::string name;
  const Stmt* macro = nullptr;  // belongs to the template
  // For a macro: the scope in which it was defined, whose names it sees, by place and by number.
  size_t scope = 0;
  uint64_t scope_number = 0;
};

}  // namespace nxdkit::trainer::jinja
