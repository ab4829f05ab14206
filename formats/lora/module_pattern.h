// A key of rank_pattern or alpha_pattern. PEFT takes it for a regular expression of Python, which
// fits a module when re.match(r"(.*\.)?(KEY)$", MODULE) does.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::lora {

// Thread-safe once made; copies share what was compiled.
class ModulePattern {
 public:
  // kUnsupported for an expression that cannot be read, is longer than 1000 bytes, or has something
  // that means one thing in Python and may mean another here: counts in braces, sets within sets,
  // groups with options, escapes but of punctuation and \d, \w, \s, \b and their opposites.
  static Result<ModulePattern> Compile(std::string key);

  const std::string& key() const { return key_; }
  bool is_name() const { return !compiled_; }  // or the end of one
  bool Fits(std::string_view module) const;

 private:
  struct Compiled;
  std::string key_;
  std::shared_ptr<const Compiled> compiled_;  // null: a name or the end of one, by far the most
};

// Whether `module` is `name` or ends in ".name", as PEFT compares them.
bool EndsIn(std::string_view module, std::string_view name);

}  // namespace nxdkit::lora
