// A fault found in an artifact. The checks of formats/ops report it and continue; tools/ shows and
// counts it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

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
  std::string message;  // the meaning, one line

  // "FILE: TENSOR: rank 3: head 5: row 17: message"
  std::string ToString() const;
};

}  // namespace nxdkit::artifact
