// The options of a kind of artifact, as rows: read by the parser, --help, the completion, the check
// of the man pages and the checks of combinations. Their values travel as Arguments.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/artifact/artifact.h"

namespace nxdkit::kinds {

// The artifacts that an option can describe.
enum OptionSide : unsigned {
  kAsRead = 1,    // an artifact that a command only reads
  kAsSource = 2,  // the input of a conversion
  kAsTarget = 4,  // the output of one
  kAsInput = kAsRead | kAsSource,
};

enum class ValueKind : uint8_t { kOther, kPath, kFolder };  // the value's meaning

struct OptionRow {
  std::string_view names;  // the main name first: "tp,tensor-parallel-size"
  std::string_view value;  // "N": a number from 1 on; "trn1|trn2"; "": a toggle; else a text
  std::string_view help;   // a phrase, no full stop
  unsigned sides = 0;      // OptionSide bits
  // The reason why an input of another kind does not take it, with {value}, {option}, {origin} and
  // {what}, the input in words. "": it is ignored there.
  std::string_view misfit = {};
  ValueKind names_a = ValueKind::kOther;

  std::string_view name() const { return names.substr(0, names.find(',')); }
  bool is_number() const { return value == "N"; }
  bool is_toggle() const { return value.empty(); }
  std::vector<std::string> choices() const;  // empty: it takes any text
};

// The row of this name that describes one of these sides; nullptr if the kind has none.
const OptionRow* FindRow(std::span<const OptionRow> rows, std::string_view name, unsigned sides);

// The rows of no particular kind: options of any artifact (--config, --merge-lora), and of any
// output (--dtype).
std::span<const OptionRow> CommonRows();

// The row for inputs in which FSDP over tensor parallelism may have exchanged rows
// (artifact::RowExchange).
inline constexpr OptionRow kExchangedRow = {
    "exchanged", "fsdp=N,tp=N",
    "restore rows that transformers exchanged between ranks (torch before 2.10)", kAsInput,
    "{option} is of checkpoints that transformers saved, and this is {what}"};

}  // namespace nxdkit::kinds
