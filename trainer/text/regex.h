// Regular expressions of tokenizer.json. They are written for Oniguruma with Ruby's syntax; here
// PCRE2 runs them, after a translation that keeps their meaning or refuses them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::trainer {

struct Span {
  size_t begin = 0;
  size_t end = 0;  // past the last byte
  bool operator==(const Span&) const = default;
};

// The pattern as PCRE2 (UTF and UCP) must have it to mean the same; README.md lists what is known.
// kUnsupported with the offset of what is not.
Result<std::string> TranslateOniguruma(std::string_view pattern);

// A pattern that matches `text` and nothing else, for Compile.
std::string EscapeRegex(std::string_view text);

// Thread-safe once made; copies share the compiled pattern.
class Regex {
 public:
  // `pattern` in Oniguruma's syntax. kUnsupported when it cannot be had.
  static Result<Regex> Compile(std::string_view pattern);

  // All matches from left to right, none inside another; an empty match right after a match does
  // not count. `text` must be UTF-8 (it is not checked again). kLimit when a match takes more
  // steps or memory than a tokenizer's pattern can need.
  Status FindAll(std::string_view text, std::vector<Span>* matches) const;

 private:
  struct Compiled;
  explicit Regex(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
  std::shared_ptr<const Compiled> compiled_;  // shared by the copies, on whatever thread they are
};

}  // namespace nxdkit::trainer
