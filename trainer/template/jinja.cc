#include "trainer/template/jinja.h"

#include "lib/base/errors.h"
#include "lib/base/utf8.h"
#include "trainer/template/lexer.h"
#include "trainer/template/parser.h"
#include "trainer/template/renderer.h"

namespace nxdkit::trainer::jinja {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;

}  // namespace

Result<Template> Template::Parse(std::string_view source, Spaces spaces) {
  if (source.size() > kMaxBytes)
    return OverLimit("template of {} bytes is over the limit of {}", source.size(), kMaxBytes);
  if (const auto bad = ValidateUtf8(source)) return Corrupt("the template is not UTF-8").at(*bad);
  Template made;
  made.source_ = NormalizeNewlines(source);
  NXDKIT_ASSIGN(made.body_, ParseTemplate(made.source_, spaces));
  return made;
}

Result<std::string> Template::Render(const Dict& variables, std::optional<int64_t> now) const {
  return jinja::Render(source_, body_, variables, now);
}

}  // namespace nxdkit::trainer::jinja
