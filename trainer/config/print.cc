#include "trainer/config/print.h"

#include <fmt/core.h>

#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/system/paths.h"
#include "trainer/base/characters.h"
#include "trainer/config/key_table.h"

namespace nxdkit::trainer {
namespace {

std::string SourceText(const LoadedConfig& loaded, const ConfigKey& key, bool is_default) {
  const ConfigSource& source = loaded.SourceOf(key.path);
  if (source.kind == SourceKind::kOverride) return "command line";
  if (source.kind == SourceKind::kMachine) return EscapeControl(source.override_text);
  if (source.kind == SourceKind::kFile)
    return fmt::format("{}:{}", EscapeControl(BaseName(loaded.path)), source.place.line);
  return is_default ? "default" : "derived";
}

// Writes those group headings that differ from the previous line's.
class YamlLines {
 public:
  void Add(std::string_view path, std::string_view value, std::string_view comment) {
    const std::vector<std::string_view> parts = Split(path, '.');
    size_t same = 0;
    while (same + 1 < parts.size() && same < open_.size() && open_[same] == parts[same]) ++same;
    for (; same + 1 < parts.size(); ++same)
      text_ += Indent(same) + std::string(parts[same]) + ":\n";
    open_.assign(parts.begin(), parts.end() - 1);
    Line(parts.size() - 1, parts.back(), value, comment);
  }
  // Adds another entry to the open group.
  void AddEntry(std::string_view name, std::string_view value, std::string_view comment) {
    Line(open_.size(), QuotedText(name), value, comment);
  }
  std::string Take() { return std::move(text_); }

 private:
  static std::string Indent(size_t depth) { return std::string(2 * depth, ' '); }
  void Line(size_t depth, std::string_view name, std::string_view value, std::string_view comment) {
    text_ += fmt::format("{}{}: {}  # {}\n", Indent(depth), name, value, comment);
  }

  std::string text_;
  std::vector<std::string_view> open_;
};

// The place of a key's value in nested objects.
Json& MemberAt(Json& root, std::string_view path) {
  Json* at = &root;
  for (const std::string_view part : Split(path, '.')) at = &(*at)[std::string(part)];
  return *at;
}

Json SlotJson(const ConfigSlot& slot) {
  Result<Json> json = ParseJson(SlotText(slot));
  NXDKIT_CHECK(json.ok());
  return std::move(json).value();
}

// In the order of KeyOwner.
constexpr std::string_view kOwners[] = {"", " (Trainium port)", " (ours)"};

std::string Meaning(const ConfigKey& key) {
  std::string text(key.text);
  std::string words;
  for (const std::string& word : SplitWords(key.words))
    words += fmt::format("{}`{}`", words.empty() ? "" : ", ", word);
  if (key.use == KeyUse::kNoEffect) return "no effect: " + text;
  if (key.use == KeyUse::kOnly) return fmt::format("only {}: {}", words, text);
  return words.empty() ? text : fmt::format("{}: {}", text, words);
}

}  // namespace

std::string PrintConfig(const LoadedConfig& loaded) {
  Config config = loaded.config;
  Config defaults;
  YamlLines lines;
  for (const ConfigKey& key : ConfigKeys()) {
    const ConfigSlot slot = key.slot(config);
    const std::string text = SlotText(slot);
    const std::string source = SourceText(loaded, key, text == SlotText(key.slot(defaults)));
    if (!IsConfigGroup(key.path)) {
      lines.Add(key.path, text, source);
      continue;
    }
    for (const ValueEntry& entry : std::get<Value*>(slot)->entries)
      lines.AddEntry(entry.key, ValueText(entry.value), source);
  }
  return lines.Take();
}

std::string ConfigJson(const Config& config) {
  Config copy = config;
  Json root = Json::object();
  for (const ConfigKey& key : ConfigKeys()) {
    Json& place = MemberAt(root, key.path);
    const Json value = SlotJson(key.slot(copy));
    if (IsConfigGroup(key.path))
      place.update(value);
    else
      place = value;
  }
  return DumpPython(root, false);
}

std::string ConfigKeyTable() {
  Config defaults;
  std::string text = "| key | type | default | meaning |\n|---|---|---|---|\n";
  for (const ConfigKey& key : ConfigKeys()) {
    const ConfigSlot slot = key.slot(defaults);
    text += fmt::format("| `{}` | {} | `{}` | {}{} |\n", key.path, TypeText(slot), SlotText(slot),
                        Meaning(key), kOwners[static_cast<size_t>(key.owner)]);
  }
  return text;
}

}  // namespace nxdkit::trainer
