#include "trainer/template/jinja.h"

#include <fmt/core.h>

#include "lib/base/utf8.h"
#include "trainer/template/lexer.h"
#include "trainer/template/parser.h"
#include "trainer/template/renderer.h"

namespace nxdkit::trainer::jinja {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;

}  // namespace

struct Template::Parts {
  std::string source;
  std::vector<Stmt> body;
};

Template::Template(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

Result<Template> Template::Parse(std::string_view source) {
  if (source.size() > kMaxBytes)
    return Error(Errc::kLimit, fmt::format("template of {} bytes is over the limit of {}",
                                           source.size(), kMaxBytes));
  if (const auto bad = ValidateUtf8(source))
    return Error(Errc::kCorrupt, "the template is not UTF-8").at(*bad);
  auto parts = std::make_unique<Parts>();
  parts->source = NormalizeNewlines(source);
  NXDKIT_ASSIGN(parts->body, ParseTemplate(parts->source));
  return Template(std::move(parts));
}

Result<std::string> Template::Render(const Dict& variables, std::optional<int64_t> now) const {
  return jinja::Render(parts_->source, parts_->body, variables, now);
}

bool Template::Mentions(std::string_view name) const {
  return parts_->source.find(name) != std::string::npos;
}

}  // namespace nxdkit::trainer::jinja
