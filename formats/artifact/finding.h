// A fault found in an artifact. The checks of formats/ops report it and continue; tools/ shows and
// counts it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/artifact/words.h"
#include "lib/plan/layout.h"

namespace nxdkit::artifact {

// Built left to right, as an Error is:
//   Finding("dtype", fmt::format("dtype {} here", found)).in(path).differs(found, expected)
// Fields that do not apply are empty.
struct Finding {
  Finding() = default;
  Finding(std::string check, std::string message);
  Finding in(std::string file) &&;
  Finding on(std::string tensor) &&;  // stored name
  Finding of(std::string param) &&;   // logical name
  Finding at_rank(std::optional<int64_t> rank) &&;
  Finding differs(std::string found, std::string expected) &&;

  std::string check;  // "replica", "padding", "rank tensor", "tied", "value", "missing", ...
  std::string file;
  std::string tensor;  // stored name
  std::string param;   // logical name
  std::optional<int64_t> rank;
  std::optional<int64_t> head;
  Shape index;        // logical, or stored for padding
  int64_t count = 0;  // differing elements of this tensor
  std::string expected;
  std::string found;
  std::string message;     // the meaning, one line
  bool explained = false;  // the message names a cause

  // "FILE: TENSOR: rank 3: head 5: row 17: message"
  std::string ToString() const;
};

// How much of a model is not that of another.
struct DifferingParams {
  uint64_t all = 0;        // parameters that were compared
  uint64_t differing = 0;  // those that are known to differ
  bool at_least = false;   // there may be more

  // "all 46 parameters differ from PATH: another model or another step"; "3 of 46 parameters differ
  // from PATH", "at least 3 of 46 ..."; "" where none does. `explained`: the findings say why, and
  // nothing is guessed.
  std::string Text(const std::string& from, bool explained) const;
};
// By the parameters that findings name.
DifferingParams CountDiffering(const std::vector<Finding>& findings, uint64_t all);

}  // namespace nxdkit::artifact
