// PRIVATE to formats/models: the text of a family in parts, and what evaluates it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/models/expression.h"
#include "formats/models/role_table.h"

namespace nxdkit::models {

// The lets of a text that reports and formats know.
enum class Fact : uint8_t {
  kHidden,
  kIntermediate,
  kLayers,
  kVocab,
  kHeads,
  kKeyHeads,
  kHeadDim,
  kExperts,
  kExpertIntermediate,
  kTied,
  kLabels,
};
inline constexpr size_t kFacts = 11;

inline constexpr int64_t kMaxExtent = int64_t{1} << 30;  // the product of two fits int64
inline constexpr size_t kMaxNameBytes = 512;             // of a tensor, or of its pattern

// What the values of a fact must be, wherever they come from.
const Expected& BoundsOf(Fact fact);

// A name with the values of expressions in it: "model.layers.{l}.mlp.{l+1}".
struct NamePattern {
  struct Part {
    std::string text;
    int64_t then = -1;  // the expression after it; -1: none
  };
  std::vector<Part> parts;
};

struct Cut {
  std::string name;
  int axis = kWhole;
  bool vocab = false;  // rows of the vocabulary, which engines pad
  bool share = false;  // where units are fewer than ranks, several ranks share one
  struct Segment {
    uint32_t count = 0;  // expressions: how many units, and of how many rows
    uint32_t unit = 0;
    Unit of = Unit::kElement;
  };
  std::vector<Segment> segments;  // none: equal parts
};

struct Row {
  NamePattern name;
  uint32_t cut = 0;
  std::vector<uint32_t> dims;        // expressions
  std::vector<uint32_t> conditions;  // all of them must hold
  Role role = Role::kReplicated;
  uint32_t line = 0;     // of the text
  bool carried = false;  // no parameter: tensors that are kept as they are, "*" at the end for any
};

// The rows and loops in their order.
struct Step {
  enum class Kind : uint8_t { kRow, kEach, kEnd } kind = Kind::kRow;
  uint32_t row = 0;
  uint32_t counter = 0;              // kEach: its symbol
  uint32_t count = 0;                // kEach: an expression
  size_t other = 0;                  // kEach: its end; kEnd: its beginning
  std::vector<uint32_t> conditions;  // kEach
};

// Another name that a parameter is stored under.
struct AliasLine {
  std::string name;
  std::string of;
  int64_t condition = -1;  // an expression; -1: always
};

// One line of a view: how an engine, or another spelling, names and joins the parts.
struct ViewLine {
  enum class Kind : uint8_t {
    kStack,
    kGroups,
    kExperts,
    kPut,
    kRope,
    kRename,
    kSplit,
  } kind = Kind::kStack;
  std::string name;             // the new one; kRope, kRename, kSplit: the old one
  std::vector<std::string> of;  // the old ones; kRename, kSplit: the new ones
  std::string op;               // kPut
  uint32_t count = 0;           // kRope: heads, kGroups: groups; an expression
};
struct View {
  std::string name;
  bool spelling = false;  // of the same checkpoint, not of an engine
  bool strict = false;    // what no line takes is not there
  std::vector<ViewLine> lines;
};

// A key of the config.json that a sample model of the family has beside those that all have.
struct SampleLine {
  std::string key;  // with dots between objects
  // Its value; "base": all the keys that all have; "": an expression over these.
  std::string json;
  Expression expression;
};

struct Table {
  std::string origin;  // the file of a user's text; "" of one that is in the program
  std::vector<Symbol> symbols;
  std::vector<Expression> expressions;
  struct Let {
    uint32_t symbol = 0;
    uint32_t expression = 0;
    bool flag = false;
  };
  std::vector<Let> lets;                // in their order
  std::array<int64_t, kFacts> facts{};  // the symbol of each; -1: there is none
  std::vector<Cut> cuts;
  std::vector<Row> rows;
  std::vector<Step> steps;
  std::vector<AliasLine> aliases;
  std::vector<std::string> ignored;  // {} or {name} stands for a number
  std::vector<View> views;
  std::vector<SampleLine> samples;
  std::vector<Symbol> sample_symbols;

  const View* FindView(std::string_view name) const;
};

}  // namespace nxdkit::models
