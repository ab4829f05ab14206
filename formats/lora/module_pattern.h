// A key of rank_pattern or alpha_pattern. PEFT reads it as a regular expression of Python that
// matches a module when re.match(r"(.*\.)?(KEY)$", MODULE) does.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::lora {

// Thread-safe once made; copies share the compiled expression.
class ModulePattern {
 public:
  // kUnsupported for an expression that cannot be parsed, is longer than 1000 bytes, or contains
  // something that may mean one thing in Python and another here: counts in braces, sets within
  // sets, groups with options, escapes except those of punctuation and \d, \w, \s, \b and their
  // opposites.
  static Result<ModulePattern> Compile(std::string key);

  const std::string& key() const { return key_; }
  bool is_name() const { return !compiled_; }  // or the end of one
  bool Fits(std::string_view module) const;

 private:
  struct Compiled;
  std::string key_;
  std::shared_ptr<const Compiled> compiled_;  // null: a name or the end of one, the usual case
};

// Whether `module` is `name` or ends in ".name", as PEFT compares them.
bool EndsIn(std::string_view module, std::string_view name);

}  // namespace nxdkit::lora
