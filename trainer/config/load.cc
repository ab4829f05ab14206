#include "trainer/config/load.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/yaml/yaml.h"
#include "trainer/config/key_table.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 20;
constexpr std::string_view kCores = "trainer.cores";

std::string Join(std::string_view prefix, std::string_view name) {
  return prefix.empty() ? std::string(name) : fmt::format("{}.{}", prefix, name);
}

std::string_view Parent(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? "" : path.substr(0, dot);
}

std::string_view LastKey(std::string_view path) { return path.substr(path.rfind('.') + 1); }

// All keys, and all groups they are in.
std::vector<std::string> KeysAndGroups() {
  std::vector<std::string> paths;
  for (const ConfigKey& key : ConfigKeys())
    for (std::string_view path = key.path; !path.empty(); path = Parent(path))
      if (std::ranges::find(paths, path) == paths.end()) paths.emplace_back(path);
  return paths;
}

// A misspelt key of the same group; the same key in another group; any key that is near.
std::string NearestKey(std::string_view path) {
  const std::vector<std::string> all = KeysAndGroups();
  std::vector<std::string> siblings;
  for (const std::string& other : all)
    if (Parent(other) == Parent(path)) siblings.emplace_back(LastKey(other));
  if (const auto near = ClosestWord(LastKey(path), siblings)) return Join(Parent(path), *near);
  for (const std::string& other : all)
    if (other.ends_with("." + std::string(path))) return other;
  for (const std::string& other : all)
    if (LastKey(other) == LastKey(path)) return other;
  const std::string near = ClosestWord(path, all).value_or("");
  return EditDistance(path, near) <= 3 ? near : "";
}

std::string ProblemText(const ConfigProblem& problem) {
  std::string text;
  if (!problem.place.empty()) text += problem.place + ": ";
  if (!problem.key.empty()) text += problem.key + ": ";
  text += problem.message;
  if (!problem.fix.empty()) text += "; " + problem.fix;
  return text;
}

class Merger {
 public:
  explicit Merger(LoadedConfig& loaded) : loaded_(loaded) {}

  std::vector<ConfigProblem>& problems() { return problems_; }

  void BeginOverride(const std::string& text) { override_ = text; }

  // The value of `path`, a key or a group, "" being the root. `where` is the place of the key.
  void Apply(const std::string& path, const Value& value, const Place& where) {
    const ConfigKey* key = FindConfigKey(path);
    const bool group = path.empty() || IsConfigGroup(path);
    if (!group && key != nullptr) return Set(*key, value, where);
    if (!group) return Unknown(path, value, where);
    if (value.kind != ValueKind::kMap)
      return Problem(path, where,
                     fmt::format("expected a map, found {}", ValueKindText(value.kind)));
    for (const ValueEntry& entry : value.entries)
      Apply(Join(path, entry.key), entry.value, entry.place);
  }

  void Problem(const std::string& path, const Place& where, std::string message,
               std::string fix = "") {
    std::string place = PlaceText(where);
    if (!override_.empty())
      place = "command line: " + EscapeControl(override_);
    else if (!loaded_.path.empty())
      place = place.empty() ? loaded_.path : loaded_.path + " " + place;
    problems_.push_back(
        {Errc::kUsage, EscapeControl(path), std::move(message), std::move(fix), std::move(place)});
  }

 private:
  void Set(const ConfigKey& key, const Value& value, const Place& where) {
    std::string wrong = AssignSlot(key.slot(loaded_.config), value);
    if (!wrong.empty()) return Problem(std::string(key.path), where, std::move(wrong));
    ConfigSource& source = loaded_.sources[static_cast<size_t>(&key - ConfigKeys().data())];
    source.kind = override_.empty() ? SourceKind::kFile : SourceKind::kOverride;
    source.place = where;
    source.override_text = override_;
  }

  // Not in the table: part of an open map, a key that only the program sets, or a mistake.
  void Unknown(const std::string& path, const Value& value, const Place& where) {
    if (const std::string_view from = DerivedFrom(path); !from.empty())
      return Problem(path, where, "this key is derived and cannot be set",
                     fmt::format("set {}", from));
    if (SetInOpenMap(path, value, where)) return;
    const std::string near = NearestKey(path);
    Problem(path, where, "there is no such key",
            near.empty() ? "" : fmt::format("did you mean {}?", near));
  }

  bool SetInOpenMap(const std::string& path, const Value& value, const Place& where) {
    Value inner = value;
    for (std::string_view at = path; !Parent(at).empty(); at = Parent(at)) {
      Value outer = Value::Map();
      outer.entries.push_back({std::string(LastKey(at)), where, inner});
      inner = std::move(outer);
      const ConfigKey* key = FindConfigKey(Parent(at));
      if (key == nullptr) continue;
      if (!std::holds_alternative<Value*>(key->slot(loaded_.config))) return false;
      // A misspelt key of a group that also takes others is a mistake all the same.
      if (IsConfigGroup(key->path) && IsNearKeyOf(*key, LastKey(at))) return false;
      Set(*key, inner, where);
      return true;
    }
    return false;
  }

  static bool IsNearKeyOf(const ConfigKey& group, std::string_view leaf) {
    std::vector<std::string> names;
    for (const ConfigKey& key : ConfigKeys())
      if (Parent(key.path) == group.path) names.emplace_back(LastKey(key.path));
    const auto near = ClosestWord(leaf, names);
    return near && EditDistance(*near, leaf) <= 2;
  }

  LoadedConfig& loaded_;
  std::string override_;
  std::vector<ConfigProblem> problems_;
};

void ApplyOverride(const std::string& text, Merger& merger) {
  merger.BeginOverride(text);
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return merger.Problem("", {}, "expected key=value");
  const std::string key = text.substr(0, equals);
  const auto depth = std::ranges::count(key, '.') + 1;
  if (depth > YamlLimits().depth)
    return merger.Problem(
        "", {},
        fmt::format("a key of {} names is over the limit of {}", depth, YamlLimits().depth));
  Result<Value> value = ParseYaml(std::string_view(text).substr(equals + 1));
  if (!value.ok()) return merger.Problem(key, {}, value.error().message());
  merger.Apply(key, *value, {});
}

bool NamesFile(std::string_view override_text) { return override_text.starts_with("config="); }

}  // namespace

Error ProblemsError(const std::vector<ConfigProblem>& problems) {
  NXDKIT_CHECK(!problems.empty());
  const ConfigProblem& first = problems.front();
  if (problems.size() == 1) {
    Error error = Error(first.code, first.message).in(first.place).member(first.key);
    return first.fix.empty() ? error : std::move(error).hint(first.fix);
  }
  std::string text = fmt::format("{} problems in the configuration:", problems.size());
  for (size_t i = 0; i < problems.size(); ++i)
    text += fmt::format("\n[{}] {}", i + 1, ProblemText(problems[i]));
  return Error(first.code, text);
}

const ConfigSource& LoadedConfig::SourceOf(std::string_view key) const {
  static const ConfigSource kNone;
  const ConfigKey* row = FindConfigKey(key);
  const size_t index =
      row == nullptr ? sources.size() : static_cast<size_t>(row - ConfigKeys().data());
  return index < sources.size() ? sources[index] : kNone;
}

std::string LoadedConfig::PlaceOf(std::string_view key) const {
  const ConfigSource& source = SourceOf(key);
  if (source.kind == SourceKind::kOverride)
    return "command line: " + EscapeControl(source.override_text);
  if (source.kind == SourceKind::kMachine) return EscapeControl(source.override_text);
  if (source.kind == SourceKind::kDefault) return "default";
  return (path.empty() ? "file" : path) + " " + PlaceText(source.place);
}

void LoadedConfig::SetCores(int64_t cores, const std::string& from) {
  if (config.trainer.cores) return;  // null is as if it were not there
  config.trainer.cores = cores;
  sources[static_cast<size_t>(FindConfigKey(kCores) - ConfigKeys().data())] = {
      SourceKind::kMachine, {}, from};
}

Result<LoadedConfig> LoadConfigText(std::string_view yaml, const std::string& path,
                                    std::span<const std::string> overrides) {
  LoadedConfig loaded;
  loaded.path = path;
  loaded.sources.resize(ConfigKeys().size());
  Merger merger(loaded);
  Result<Value> root = ParseYaml(yaml);
  if (!root.ok()) return std::move(root).error().in(path);
  if (root->kind != ValueKind::kNull) merger.Apply("", *root, {});
  for (const std::string& text : overrides)
    if (!NamesFile(text)) ApplyOverride(text, merger);
  if (!merger.problems().empty()) return ProblemsError(merger.problems());
  DeriveConfig(loaded.config);
  return loaded;
}

Result<LoadedConfig> LoadConfig(const std::string& path, std::span<const std::string> overrides) {
  std::string file = path;
  for (const std::string& text : overrides)
    if (file.empty() && NamesFile(text)) file = text.substr(std::string_view("config=").size());
  std::string yaml;
  if (!file.empty()) {
    NXDKIT_ASSIGN(yaml, ReadSmallFile(file, kMaxFileBytes));
    const Result<Value> root = ParseYaml(yaml);
    const bool says_nothing =
        root.ok() && (root->kind == ValueKind::kNull ||
                      (root->kind == ValueKind::kMap && root->entries.empty()));
    if (says_nothing) return BadUsage("the configuration sets no key").in(file);
  }
  return LoadConfigText(yaml, file, overrides);
}

}  // namespace nxdkit::trainer
