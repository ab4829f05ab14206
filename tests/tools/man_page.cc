#include "tests/tools/man_page.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace nxdkit::test {
namespace {

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<std::string> WordsOf(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : std::string(line) + " ") {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  return words;
}

// "Fl -tp" is --tp and "Fl j" is -j.
void AddFlags(const std::vector<std::string>& words, Names& names) {
  for (size_t i = 0; i + 1 < words.size(); ++i)
    if (words[i] == "Fl" || words[i] == ".Fl") names.insert("-" + words[i + 1]);
}

bool IsDescribed(const std::string& path, const Names& documented) {
  if (documented.contains(path)) return true;
  // The last key may vary: "dtypes.BF16" is "dtypes.*".
  const size_t dot = path.rfind('.');
  return dot != std::string::npos && documented.contains(path.substr(0, dot) + ".*");
}

void Walk(const Json& json, const std::string& path, const Names& documented,
          std::vector<std::string>& missing) {
  if (!path.empty() && !path.ends_with("[]") && !IsDescribed(path, documented))
    missing.push_back(path);
  if (json.is_array())
    for (const Json& item : json) Walk(item, path + "[]", documented, missing);
  if (json.is_object())
    for (const auto& [key, value] : json.items())
      Walk(value, path.empty() ? key : path + "." + key, documented, missing);
}

}  // namespace

std::string NameOf(const std::string& tool) {
  return std::filesystem::path(tool).filename().string();
}

Names HelpOptions(std::string_view help) {
  Names names;
  for (const std::string& line : Lines(help)) {
    const size_t dash = line.find_first_not_of(' ');
    if (dash == std::string::npos || dash < 2 || dash > 6 || line[dash] != '-') continue;
    for (std::string word : WordsOf(line)) {
      if (!word.starts_with('-')) break;
      const bool more = word.ends_with(',');
      names.insert(more ? word.substr(0, word.size() - 1) : word);
      if (!more) break;
    }
  }
  return names;
}

Names ManOptions(std::string_view page) {
  Names names;
  for (const std::string& line : Lines(page))
    if (line.starts_with(".It Fl ")) AddFlags(WordsOf(line), names);
  return names;
}

Names ManMentions(std::string_view page) {
  Names names;
  for (const std::string& line : Lines(page))
    if (line.starts_with('.')) AddFlags(WordsOf(line), names);
  return names;
}

Names ManJsonPaths(std::string_view page) {
  Names paths;
  bool inside = false;
  for (const std::string& line : Lines(page)) {
    if (line.starts_with(".Sh ")) inside = line == ".Sh JSON OUTPUT";
    if (!inside || !line.starts_with(".It Va ")) continue;
    for (const std::string& word : WordsOf(line.substr(7)))
      if (word != "," && word != "Va") paths.insert(word);
  }
  return paths;
}

std::vector<std::string> UndocumentedPaths(const Json& json, const Names& documented) {
  std::vector<std::string> missing;
  Walk(json, "", documented, missing);
  std::ranges::sort(missing);
  missing.erase(std::ranges::unique(missing).begin(), missing.end());
  return missing;
}

std::vector<std::string> ManExamples(std::string_view page) {
  std::vector<std::string> examples;
  bool inside = false;
  for (const std::string& line : Lines(page)) {
    if (line.starts_with(".Sh ")) inside = line == ".Sh EXAMPLES";
    if (inside && line.starts_with(".Dl ")) examples.push_back(line.substr(4));
  }
  return examples;
}

}  // namespace nxdkit::test
