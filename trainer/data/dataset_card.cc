#include "trainer/data/dataset_card.h"

#include <fnmatch.h>

#include "lib/base/errors.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/yaml/yaml.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kMaxCard = uint64_t{4} << 20;  // bytes
constexpr std::string_view kFence = "---\n";

// The YAML at its beginning; "" if there is none.
std::string_view FrontMatter(std::string_view text) {
  if (!text.starts_with(kFence)) return "";
  text.remove_prefix(kFence.size());
  const size_t end = text.find("\n---");
  return end == std::string_view::npos ? "" : text.substr(0, end + 1);
}

std::string TextOf(const Value* value) { return value ? value->text : ""; }

// One text, or a list of them.
std::vector<std::string> Texts(const Value& value) {
  if (value.kind != ValueKind::kList) return {value.text};
  std::vector<std::string> texts;
  for (const Value& item : value.items) texts.push_back(item.text);
  return texts;
}

std::vector<CardSplit> SplitsOf(const Value& config) {
  std::vector<CardSplit> splits;
  const Value* files = config.Find("data_files");
  if (!files) return splits;
  if (files->kind == ValueKind::kString) return {{"train", {files->text}}};
  for (const Value& item : files->items) {
    const Value* path = item.kind == ValueKind::kMap ? item.Find("path") : nullptr;
    if (path) splits.push_back({TextOf(item.Find("split")), Texts(*path)});
  }
  return splits;
}

Result<const Value*> DefaultConfig(const Value& configs, const std::string& card) {
  std::string names;
  for (const Value& config : configs.items) {
    if (config.kind != ValueKind::kMap) continue;
    const std::string name = TextOf(config.Find("config_name"));
    const Value* is_default = config.Find("default");
    if (name == "default" || (is_default && is_default->boolean) || configs.items.size() == 1)
      return &config;
    names += (names.empty() ? "" : ", ") + name;
  }
  return Unsupported("the data set has several configurations and no default: {}", names)
      .in(card)
      .hint("name the folder or the file of one of them");
}

}  // namespace

Result<std::vector<CardSplit>> SplitsOfCard(const std::string& folder) {
  const std::string card = JoinPath(folder, "README.md");
  NXDKIT_ASSIGN(const bool there, IsFile(card));
  if (!there) return std::vector<CardSplit>();
  const Result<std::string> text = ReadSmallFile(card, kMaxCard);
  if (!text.ok() && text.error().code() == Errc::kIo) return text.error();
  // A page that is not a hub card describes no splits.
  if (!text.ok()) return std::vector<CardSplit>();
  const Result<Value> yaml = ParseYaml(FrontMatter(*text));
  const Value* configs =
      yaml.ok() && yaml->kind == ValueKind::kMap ? yaml->Find("configs") : nullptr;
  if (!configs || configs->items.empty()) return std::vector<CardSplit>();
  NXDKIT_ASSIGN(const Value* config, DefaultConfig(*configs, card));
  return SplitsOf(*config);
}

std::optional<std::string_view> SplitOfCard(const std::vector<CardSplit>& card,
                                            const std::string& path) {
  for (const CardSplit& split : card)
    for (const std::string& pattern : split.patterns)
      if (::fnmatch(pattern.c_str(), path.c_str(), 0) == 0) return split.split;
  return std::nullopt;
}

}  // namespace nxdkit::trainer
