#include "tools/library/request.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/errors.h"

namespace nxdkit::tool {
namespace {

// A C string ends at its first zero byte, so a name with one would be cut.
Result<std::string> PlainText(const Json& value, std::string_view what) {
  std::string text = value.get<std::string>();
  if (text.find('\0') != std::string::npos) return BadUsage("{} has a zero byte", what);
  return text;
}

// A text, a number or a source, as a word.
Result<std::string> WordOf(const Json& value, const std::string& place, std::string_view what,
                           const NameSource& name_source) {
  if (value.is_string()) return PlainText(value, what);
  if (value.is_number()) return value.dump();
  const Json* const source = JsonFind(value, "source");
  if (source && source->is_number_integer() && name_source)
    return name_source(place, source->get<int64_t>());
  return BadUsage("{} is {}, expected a text, a number or a source", what, JsonTypeText(value));
}

bool HasOption(const OptionTable& table, const std::string& word) {
  for (const OptionFacts& facts : table.Facts())
    if (std::ranges::find(facts.names, word) != facts.names.end()) return true;
  return false;
}

}  // namespace

Result<Json> ParseRequest(const char* text) {
  if (text == nullptr) return BadUsage("the request is NULL, expected a JSON object");
  Result<Json> json = ParseJson(text);
  if (!json.ok()) return Error(Errc::kUsage, "the request is not JSON: " + json.error().message());
  if (!json->is_object())
    return BadUsage("the request is {}, expected a JSON object", JsonTypeText(*json));
  return json;
}

Result<std::string> TextIn(const Json& request, std::string_view key) {
  const Json* const value = JsonFind(request, key);
  if (value == nullptr) return BadUsage("the request has no \"{}\"", key);
  if (!value->is_string())
    return BadUsage("\"{}\" is {}, expected a text", key, JsonTypeText(*value));
  std::string text = value->get<std::string>();
  if (text.empty() || text.find('\0') != std::string::npos)
    return BadUsage("\"{}\" is empty or has a zero byte", key);
  return text;
}

Result<std::vector<std::string>> OptionWords(const Json* options, const OptionTable& table,
                                             const NameSource& name_source) {
  std::vector<std::string> words;
  if (options == nullptr) return words;
  if (!options->is_object())
    return BadUsage("\"options\" is {}, expected an object", JsonTypeText(*options));
  for (const auto& [key, value] : options->items()) {
    std::string name = key;
    std::ranges::replace(name, '_', '-');
    if (value.is_null()) continue;
    if (value.is_boolean()) {
      if (value.get<bool>()) words.push_back("--" + name);
      if (!value.get<bool>() && HasOption(table, "--no-" + name)) words.push_back("--no-" + name);
      if (value.get<bool>() || HasOption(table, "--" + name)) continue;
      return BadUsage("unknown option {}", name);
    }
    const Json list = value.is_array() ? value : Json::array({value});
    for (const Json& entry : list) {
      NXDKIT_ASSIGN(const std::string word, WordOf(entry, name, name, name_source));
      words.push_back(fmt::format("--{}={}", name, word));
    }
  }
  return words;
}

Result<std::vector<std::string>> ArgumentWords(const Json* arguments,
                                               const NameSource& name_source) {
  std::vector<std::string> words;
  if (arguments == nullptr) return words;
  if (!arguments->is_array())
    return BadUsage("\"arguments\" is {}, expected a list", JsonTypeText(*arguments));
  words.push_back("--");
  for (size_t i = 0; i < arguments->size(); ++i) {
    NXDKIT_ASSIGN(std::string word,
                  WordOf((*arguments)[i], std::to_string(i), "an argument", name_source));
    words.push_back(std::move(word));
  }
  return words;
}

}  // namespace nxdkit::tool
