#include "trainer/data/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "formats/hf/hub_cache.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"
#include "trainer/data/dataset_card.h"

namespace nxdkit::trainer {
namespace {

constexpr size_t kMaxFiles = 100'000;
constexpr int kMaxDepth = 3;  // nesting of folders in a data set

struct SplitWord {
  std::string_view word;
  std::string_view split;
};
constexpr SplitWord kSplitWords[] = {
    {"train", "train"},      {"training", "train"}, {"test", "test"},
    {"testing", "test"},     {"eval", "test"},      {"val", "validation"},
    {"valid", "validation"}, {"dev", "validation"}, {"validation", "validation"},
};

// The canonical name of a split with several names; other names stand for themselves.
std::string_view SplitOf(std::string_view word) {
  const auto* row = std::ranges::find(kSplitWords, word, &SplitWord::word);
  return row == std::end(kSplitWords) ? word : row->split;
}

// The split in a file name, as a word of its own: "gsm8k-test-0.jsonl", not "latest.jsonl".
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

bool IsMissing(const std::string& path) { return KindForHint(path) == PathKind::kMissing; }

std::string Extension(const std::string& path) {
  const std::string name = BaseName(path);
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(dot + 1);
}

bool IsData(const std::string& path) {
  const std::string kind = Extension(path);
  return kind == "jsonl" || kind == "json" || IsTable(path);
}

Status CheckKind(const std::string& path) {
  if (IsData(path)) return OkStatus();
  return Unsupported("a data file of type '{}', expected .jsonl, .json, .parquet or .arrow",
                     Extension(path))
      .in(path)
      .hint(
          "convert it: one JSON object per line; or name a program that prints such lines: "
          "exec:COMMAND");
}

// Hidden files, documentation, and the files that `datasets` adds are not data.
bool IsAside(const std::string& name) {
  constexpr std::string_view kBeside[] = {"dataset_info.json", "dataset_infos.json",
                                          "dataset_dict.json", "state.json"};
  return name.starts_with('.') || name.ends_with(".md") || name == "LICENSE" ||
         std::ranges::find(kBeside, name) != std::end(kBeside);
}

// Names below the folder: its own files and, up to depth `deep`, those of its subfolders.
Status AddNames(const std::string& folder, const std::string& prefix, int deep,
                std::vector<std::string>& names) {
  NXDKIT_ASSIGN(const std::vector<std::string> here, ListFolder(JoinPath(folder, prefix)));
  for (const std::string& name : here) {
    if (IsAside(name)) continue;
    const std::string path = prefix.empty() ? name : JoinPath(prefix, name);
    if (names.size() == kMaxFiles) return OverLimit("over {} files", kMaxFiles).in(folder);
    NXDKIT_ASSIGN(const bool is_folder, IsFolder(JoinPath(folder, path)));
    if (!is_folder)
      names.push_back(path);
    else if (deep > 0)
      NXDKIT_TRY(AddNames(folder, path, deep - 1, names));
  }
  return OkStatus();
}

Result<std::vector<std::string>> Names(const std::string& folder) {
  std::vector<std::string> names;
  NXDKIT_TRY(AddNames(folder, "", 0, names));
  if (!names.empty()) return names;
  NXDKIT_TRY(AddNames(folder, "", kMaxDepth, names));
  return names;
}

// The splits found, for a message: "train: 3 files, test: 1 file".
std::string SplitsText(const std::map<std::string, std::vector<std::string>>& splits) {
  std::vector<std::string> parts;
  for (const auto& [split, files] : splits)
    parts.push_back(
        fmt::format("{}: {}", split.empty() ? "no split" : split, Counted(files.size(), "file")));
  return fmt::format("{}", fmt::join(parts, ", "));
}

Error NoSuchSplit(const DataSource& source,
                  const std::map<std::string, std::vector<std::string>>& splits) {
  return Error(Errc::kNotFound,
               splits.empty() ? fmt::format("found no data files: .jsonl, .json, .parquet, .arrow")
                              : fmt::format("there is no split '{}'; there are {}", source.split,
                                            SplitsText(splits)))
      .in(source.path);
}

Result<std::vector<std::string>> FolderFiles(const DataSource& source, const std::string& folder) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, Names(folder));
  const std::string wanted(SplitOf(source.split));
  std::map<std::string, std::vector<std::string>> splits;
  NXDKIT_ASSIGN(const auto card, SplitsOfCard(folder));
  for (const std::string& name : names) {
    const auto said = card.empty() ? SplitInName(name, source.split) : SplitOfCard(card, name);
    if (!card.empty() && !said) continue;  // in no split of the card
    NXDKIT_TRY(CheckKind(JoinPath(folder, name)));
    splits[std::string(SplitOf(said.value_or("")))].push_back(JoinPath(folder, name));
  }
  // If no file name contains a split, all files belong to "train".
  if (splits.size() == 1 && splits.contains("")) {
    auto plain = splits.extract("");
    plain.key() = "train";
    splits.insert(std::move(plain));
  }
  const auto found = splits.find(wanted);
  if (found == splits.end()) return NoSuchSplit(source, splits);
  return found->second;
}

}  // namespace

bool IsTable(const std::string& path) {
  const std::string kind = Extension(path);
  return kind == "parquet" || kind == "arrow";
}

Result<DataSource> ParseDataSource(std::string_view text) {
  constexpr std::string_view kExec = "exec:";
  if (text.starts_with(kExec) && text.size() > kExec.size())
    return DataSource{.path = std::string(text.substr(kExec.size())), .is_command = true};
  DataSource source;
  source.path = text;
  const size_t at = text.rfind('@');
  const bool names_split = at != std::string_view::npos && IsMissing(source.path);
  if (names_split) {
    source.path = text.substr(0, at);
    source.split = text.substr(at + 1);
  }
  // With several '@', the rest must be an existing path, or a hub name with its revision.
  const bool one = source.path.find('@') == std::string::npos || !IsMissing(source.path) ||
                   hf::IsHubName(source.path);
  if (source.path.empty() || source.split.empty() || !one)
    return BadUsage("data source '{}', expected PATH or PATH@SPLIT, or exec:COMMAND",
                    EscapeControl(text));
  return source;
}

Result<std::vector<std::string>> ResolveFiles(const DataSource& source) {
  NXDKIT_ASSIGN(const PathKind kind, KindOf(source.path));
  if (kind == PathKind::kFolder) {
    NXDKIT_ASSIGN(const std::string folder, hf::SnapshotInside(source.path));
    return FolderFiles(source, folder);
  }
  if (kind == PathKind::kFile) {
    NXDKIT_TRY(CheckKind(source.path));
    if (SplitOf(source.split) == "train") return std::vector<std::string>{source.path};
    return NotFound("a file has the split 'train' only, not '{}'", source.split).in(source.path);
  }
  if (!hf::IsHubName(source.path)) return NotFound("neither a file nor a folder").in(source.path);
  NXDKIT_ASSIGN(const std::string snapshot, hf::FindInHubCache(hf::HubKind::kDataset, source.path));
  return FolderFiles(source, snapshot);
}

}  // namespace nxdkit::trainer
