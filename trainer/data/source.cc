#include "trainer/data/source.h"

#include <algorithm>
#include <optional>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"

namespace nxdkit::trainer {
namespace {

struct SplitWord {
  std::string_view word;
  std::string_view split;
};
constexpr SplitWord kSplitWords[] = {
    {"train", "train"},      {"training", "train"}, {"test", "test"},
    {"testing", "test"},     {"eval", "test"},      {"val", "validation"},
    {"valid", "validation"}, {"dev", "validation"}, {"validation", "validation"},
};

// The name that stands for all words of a split; other names stand for themselves.
std::string_view SplitOf(std::string_view word) {
  const auto* row = std::ranges::find(kSplitWords, word, &SplitWord::word);
  return row == std::end(kSplitWords) ? word : row->split;
}

// The split that a file name tells, by a word of its own: "gsm8k-test-0.jsonl", not "latest.jsonl".
std::optional<std::string_view> SplitInName(std::string_view name, std::string_view wanted) {
  name = name.substr(0, name.rfind('.'));
  for (size_t i = 0; i < name.size();) {
    size_t end = i;
    while (end < name.size() && IsAlnum(name[end])) ++end;
    const std::string_view word = name.substr(i, end - i);
    const bool is_known =
        std::ranges::find(kSplitWords, word, &SplitWord::word) != std::end(kSplitWords);
    if (is_known || word == wanted) return SplitOf(word);
    i = end + 1;
  }
  return std::nullopt;
}

std::string Extension(const std::string& path) {
  const std::string name = BaseName(path);
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(dot + 1);
}

Status CheckKind(const std::string& path) {
  const std::string kind = Extension(path);
  if (kind == "jsonl" || kind == "json") return OkStatus();
  return Unsupported("a data file of type '{}', expected .jsonl or .json", kind)
      .in(path)
      .hint("convert it: one JSON object per line");
}

// Hidden files and documentation are not data.
bool IsAside(const std::string& name) { return name.starts_with('.') || name.ends_with(".md"); }

Result<std::vector<std::string>> FolderFiles(const DataSource& source) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(source.path));
  std::vector<std::string> plain, of_split, others;
  const std::string_view wanted = SplitOf(source.split);
  for (const std::string& name : names) {
    const std::string path = JoinPath(source.path, name);
    if (IsAside(name) || KindOf(path) == PathKind::kFolder) continue;
    NXDKIT_TRY(CheckKind(path));
    const auto split = SplitInName(name, source.split);
    (!split ? plain : *split == wanted ? of_split : others).push_back(path);
  }
  if (!of_split.empty()) return of_split;
  if (others.empty() && wanted == "train" && !plain.empty()) return plain;
  return NotFound("none of the {} data files belongs to the split '{}'",
                  plain.size() + others.size(), source.split)
      .in(source.path);
}

}  // namespace

Result<DataSource> ParseDataSource(std::string_view text) {
  const size_t at = text.find('@');
  DataSource source;
  source.path = text.substr(0, at);
  if (at != std::string_view::npos) source.split = text.substr(at + 1);
  if (source.path.empty() || source.split.empty() || source.split.find('@') != std::string::npos)
    return BadUsage("data source '{}', expected PATH or PATH@SPLIT", text);
  return source;
}

Result<std::vector<std::string>> ResolveFiles(const DataSource& source) {
  switch (KindOf(source.path)) {
    case PathKind::kFolder:
      return FolderFiles(source);
    case PathKind::kFile:
      NXDKIT_TRY(CheckKind(source.path));
      if (SplitOf(source.split) == "train") return std::vector<std::string>{source.path};
      return NotFound("a file has the split 'train' only, not '{}'", source.split).in(source.path);
    default:
      return NotFound("neither a file nor a folder")
          .in(source.path)
          .hint("data sets of a hub are not fetched: export them to .jsonl files");
  }
}

}  // namespace nxdkit::trainer
