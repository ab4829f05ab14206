// Jinja templates, as much of them as chat templates use; README.md has the list. Renders what
// jinja2 renders with the settings of transformers: trim_blocks, lstrip_blocks, loop controls, no
// escaping, nothing that could reach out of the template.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "trainer/template/ast.h"

namespace nxdkit::trainer::jinja {

// Thread-safe once made. Move-only.
class Template {
 public:
  // kCorrupt for what is not Jinja, kUnsupported for what is not known here, each with line and
  // column; kLimit for more than 1 MiB, or nesting without end.
  static Result<Template> Parse(std::string_view source, Spaces spaces = Spaces::kTrimmed);

  Template(Template&&) noexcept = default;
  Template& operator=(Template&&) noexcept = default;

  // With `now`, seconds of Unix time, strftime_now(format) is there and tells that time as UTC;
  // without, it is undefined. Errors have line and column, also those the template raises itself
  // (kCorrupt: "the template says: ..."); kLimit for too many steps or too much text.
  Result<std::string> Render(const Dict& variables, std::optional<int64_t> now = {}) const;

  // Whether the name occurs in the template: what a template does not read has no effect.
  bool Mentions(std::string_view name) const { return source_.find(name) != std::string::npos; }

 private:
  Template() = default;
  std::string source_;
  std::vector<Stmt> body_;
};

}  // namespace nxdkit::trainer::jinja
