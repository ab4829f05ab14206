#include "formats/compile_cache/compiler_options.h"

namespace nxdkit::neff {
namespace {

bool IsWithValue(const std::string& word, std::string_view name) {
  return word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=';
}

}  // namespace

std::optional<std::string> OptionValue(const std::vector<std::string>& words,
                                       std::initializer_list<std::string_view> names) {
  std::optional<std::string> value;
  for (size_t i = 0; i < words.size(); ++i)
    for (const std::string_view name : names) {
      if (words[i] == name && i + 1 < words.size()) value = words[i + 1];
      if (IsWithValue(words[i], name)) value = words[i].substr(name.size() + 1);
    }
  return value;
}

std::vector<std::string> WithoutOption(const std::vector<std::string>& words,
                                       std::string_view name) {
  std::vector<std::string> kept;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == name)
      ++i;
    else if (!IsWithValue(words[i], name))
      kept.push_back(words[i]);
  }
  return kept;
}

}  // namespace nxdkit::neff
