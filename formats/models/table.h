// PRIVATE to formats/models: a parsed family text, and its evaluation.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/models/expression.h"
#include "formats/models/role_table.h"

namespace nxdkit::models {

// The lets that reports and formats use.
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

// The required type and bounds of a fact's values, whatever their origin.
const Expected& BoundsOf(Fact fact);

// A name that contains expressions: "model.layers.{l}.mlp.{l+1}".
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
  bool share = false;  // with fewer units than ranks, several ranks share one
  struct Segment {
    uint32_t count = 0;  // expressions: the number of units, and the rows of each
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
  uint32_t line = 0;     // in the text
  bool carried = false;  // not a parameter: tensors kept as they are, "*" at the end for any
};

// A row, or the beginning or end of a loop, in order.
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
  bool spelling = false;  // for another spelling of the same checkpoint, not an engine
  bool strict = false;    // parameters that no line takes do not exist
  std::vector<ViewLine> lines;
};

// A key that the config.json of the family's sample model has in addition to the common ones.
struct SampleLine {
  std::string key;  // with dots between objects
  // Its value; "base": all the common keys; "": an expression over these.
  std::string json;
  Expression expression;
};

struct Table {
  std::string origin;  // the file of a user's text; "" for a built-in one
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
