#include "formats/lora/module_pattern.h"

#include <algorithm>
#include <regex>

#include "lib/base/errors.h"
#include "lib/json/json.h"

namespace nxdkit::lora {
namespace {

constexpr size_t kMaxBytes = 1000;
constexpr size_t kMaxModuleBytes = 1000;

bool IsWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// A dot in a name is read as a plain dot: no module's name has another character in its place.
bool IsName(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return IsWordCharacter(c) || c == '.'; });
}

// The part after "^", which anchors a key at the beginning of the module's full name.
std::string_view WithoutAnchor(std::string_view key) {
  return key.substr(key.starts_with('^') ? 1 : 0);
}

// The first thing in a pattern that Python and ECMAScript read differently, or that could make its
// automaton large; "" if there is none.
std::string_view Doubtful(std::string_view key) {
  constexpr std::string_view kEscapes = "dDwWsSbB";
  for (size_t i = 0; i < key.size(); ++i) {
    const std::string_view rest = key.substr(i);
    if (rest.front() == '{') return rest.substr(0, 1);
    for (const std::string_view set : {"[[", "[^[", "[]", "[^]", "[:", "[.", "[="})
      if (rest.starts_with(set)) return set;
    if (rest.starts_with("(?") && rest.size() > 2 && rest[2] != ':') return rest.substr(0, 3);
    if (rest.front() != '\\') continue;
    if (rest.size() < 2) return rest;
    if (IsWordCharacter(rest[1]) && kEscapes.find(rest[1]) == std::string_view::npos)
      return rest.substr(0, 2);
    ++i;
  }
  return "";
}

}  // namespace

struct ModulePattern::Compiled {
  std::regex expression;
};

bool EndsIn(std::string_view module, std::string_view name) {
  if (!module.ends_with(name)) return false;
  return module.size() == name.size() || module[module.size() - name.size() - 1] == '.';
}

Result<ModulePattern> ModulePattern::Compile(std::string key) {
  ModulePattern pattern;
  pattern.key_ = std::move(key);
  if (IsName(WithoutAnchor(pattern.key_))) return pattern;
  if (pattern.key_.empty() || pattern.key_.size() > kMaxBytes)
    return Unsupported("a regular expression of {} bytes, expected 1 to {}", pattern.key_.size(),
                       kMaxBytes);
  if (const std::string_view part = Doubtful(pattern.key_); !part.empty())
    return Unsupported("the regular expression {} has {}, which this program does not read",
                       JsonExcerpt(pattern.key_), JsonExcerpt(std::string(part)))
        .hint("write the names of the modules, or their ends, instead");
  // A hostile pattern cannot make libstdc++'s polynomial executor run long.
  constexpr auto kFlags = std::regex_constants::ECMAScript | std::regex_constants::nosubs |
                          std::regex_constants::__polynomial;
  try {
    pattern.compiled_ = std::make_shared<const Compiled>(
        Compiled{std::regex("(?:.*\\.)?(?:" + pattern.key_ + ")", kFlags)});
  } catch (const std::regex_error& error) {
    return Unsupported("the regular expression {} cannot be read: {}", JsonExcerpt(pattern.key_),
                       error.what());
  }
  return pattern;
}

bool ModulePattern::Fits(std::string_view module) const {
  if (!compiled_)
    return key_.starts_with('^') ? module == WithoutAnchor(key_) : EndsIn(module, key_);
  return module.size() <= kMaxModuleBytes &&
         std::regex_match(module.begin(), module.end(), compiled_->expression);
}

}  // namespace nxdkit::lora
