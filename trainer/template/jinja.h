// Jinja templates, as far as chat templates use them; README.md has the list. The output is that of
// jinja2 with the settings of transformers: trim_blocks, lstrip_blocks, loop controls, no escaping,
// no access to anything outside the template.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "trainer/template/ast.h"

namespace nxdkit::trainer::jinja {

// Thread-safe once parsed. Move-only.
class Template {
 public:
  // kCorrupt for invalid Jinja, kUnsupported for unknown features, each with line and column;
  // kLimit for more than 1 MiB, or unlimited nesting.
  static Result<Template> Parse(std::string_view source, Spaces spaces = Spaces::kTrimmed);

  Template(Template&&) noexcept = default;
  Template& operator=(Template&&) noexcept = default;

  // With `now`, in seconds of Unix time, strftime_now(format) is defined and formats that time in
  // UTC; without it, it is undefined. Errors have line and column, also those that the template
  // raises itself (kCorrupt: "the template says: ..."); kLimit for too many steps or too much text.
  Result<std::string> Render(const Dict& variables, std::optional<int64_t> now = {}) const;

  // Whether the name occurs in the template: a variable that a template does not mention has no
  // effect.
  bool Mentions(std::string_view name) const { return source_.find(name) != std::string::npos; }

 private:
  Template() = default;
  std::string source_;
  std::vector<Stmt> body_;
};

}  // namespace nxdkit::trainer::jinja
