// The regular expressions of tokenizer.json. They are written for Oniguruma in Ruby's syntax; here
// PCRE2 runs them, after a translation that preserves their meaning or refuses them. Oniguruma
// finds the same words, but has no JIT: its matching takes three times as long, and encoding a text
// takes 1.7 times as long (Qwen2's pattern, 0.9 MB, Oniguruma 6.9.8 against PCRE2 10.42).
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::trainer {

struct Span {
  size_t begin = 0;
  size_t end = 0;  // past the last byte
  bool operator==(const Span&) const = default;
};

// Thread-safe once compiled; copies share the compiled pattern.
class Regex {
 public:
  // `pattern` in Oniguruma's syntax. kUnsupported when it cannot be translated.
  static Result<Regex> Compile(std::string_view pattern);

  // All matches from left to right, none inside another; an empty match right after a match does
  // not count. `text` must be UTF-8 (it is not checked again). kLimit when a match takes more
  // steps or memory than a tokenizer's pattern can need.
  Status FindAll(std::string_view text, std::vector<Span>* matches) const;

 private:
  struct Compiled;
  explicit Regex(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
  std::shared_ptr<const Compiled> compiled_;  // shared by the copies, on any thread
};

}  // namespace nxdkit::trainer
