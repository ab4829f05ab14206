#include "trainer/config/load.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/broken_download.h"
#include "lib/system/file.h"
#include "lib/system/user_path.h"
#include "lib/yaml/yaml.h"
#include "trainer/config/inherit.h"
#include "trainer/config/interpolate.h"
#include "trainer/config/key_table.h"
#include "trainer/config/merger.h"
#include "trainer/config/other_programs.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 20;
constexpr size_t kShownProblems = 3;  // more than one: a line each, below their count
constexpr std::string_view kCores = "trainer.cores";

bool NamesFile(std::string_view override_text) { return override_text.starts_with("config="); }

YamlLimits LimitsOfConfig() { return {.interpolations = true}; }

// "key=value", with the value as YAML; anything else is a problem.
std::optional<Said> ReadOverride(const std::string& text, Merger& merger) {
  const auto refuse = [&](const std::string& key, std::string message) {
    merger.Refuse({key, {}, {}, text}, std::move(message));
    return std::nullopt;
  };
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return refuse("", "expected key=value");
  const std::string key = text.substr(0, equals);
  const auto depth = std::ranges::count(key, '.') + 1;
  if (depth > YamlLimits().depth)
    return refuse(
        "", fmt::format("a key of {} names is over the limit of {}", depth, YamlLimits().depth));
  Result<Value> value = ParseYaml(std::string_view(text).substr(equals + 1), LimitsOfConfig());
  if (!value.ok()) return refuse(key, value.error().message());
  return Said{key, std::move(value).value(), {}, text};
}

// Nested maps for the path, with the value in the innermost.
Value Nested(std::string_view path, const Place& place, Value value) {
  for (std::string_view at = path; !at.empty(); at = ParentKey(at)) {
    Value outer = Value::Map();
    outer.entries.push_back({std::string(LastKey(at)), place, std::move(value)});
    value = std::move(outer);
  }
  return value;
}

// Keys of a file that contain dots, "data.seed", as nested maps.
Value WithoutDots(const Value& value) {
  if (value.kind != ValueKind::kMap) return value;
  Value out = Value::Map();
  out.place = value.place;
  for (const ValueEntry& entry : value.entries) {
    Value inner = WithoutDots(entry.value);
    const auto dots = std::ranges::count(entry.key, '.');
    Value one = Value::Map();
    if (dots > 0 && dots < YamlLimits().depth)
      one = Nested(entry.key, entry.place, std::move(inner));
    else
      one.entries.push_back({entry.key, entry.place, std::move(inner)});
    MergeValue(out, one);
  }
  return out;
}

// All sources merged; nearer ones replace farther ones.
Value Merged(std::span<const Said> all) {
  Value merged = Value::Map();
  for (const Said& said : all) {
    const Value value = Nested(said.path, said.place, WithoutDots(said.value));
    if (value.kind == ValueKind::kMap) MergeValue(merged, value);
  }
  return merged;
}

Status RefuseOthers(const Value& said) {
  std::vector<std::string> keys;
  for (const ValueEntry& entry : said.entries) keys.push_back(entry.key);
  return RefuseOtherPrograms(keys);
}

// Reports each fault at the place that last set the key.
void RefuseFaults(std::span<const InterpolationFault> faults, std::span<const Said> all,
                  Merger& merger) {
  for (const InterpolationFault& fault : faults) {
    std::string override_text;
    for (const Said& said : all)
      if (!said.path.empty() &&
          (fault.path == said.path || fault.path.starts_with(said.path + ".")))
        override_text = said.override_text;
    merger.Refuse({fault.path, {}, fault.place, override_text}, fault.message, fault.fix);
  }
}

// Expands paths as a shell does; an invalid one is a problem.
void TakePaths(LoadedConfig& loaded, std::vector<ConfigProblem>& problems) {
  for (const ConfigKey& key : ConfigKeys()) {
    if (!IsPathLimit(key.limit)) continue;
    const ConfigSlot slot = key.slot(loaded.config);
    std::string* path = nullptr;
    if (auto* const* text = std::get_if<std::string*>(&slot)) path = *text;
    if (auto* const* text = std::get_if<std::optional<std::string>*>(&slot); text && **text)
      path = &***text;
    if (path == nullptr || (key.limit == KeyLimit::kData && path->starts_with("exec:"))) continue;
    Result<std::string> taken = UserPath(*path);
    if (taken.ok())
      *path = std::move(taken).value();
    else
      problems.push_back({taken.error().code(), std::string(key.path), taken.error().message(),
                          taken.error().hint(), loaded.PlaceOf(key.path)});
  }
}

std::string ProblemText(const ConfigProblem& problem) {
  std::string text;
  if (!problem.place.empty()) text += problem.place + ": ";
  if (!problem.key.empty()) text += problem.key + ": ";
  text += problem.message;
  if (!problem.fix.empty()) text += "; " + problem.fix;
  return text;
}

}  // namespace

Error ProblemsError(const std::vector<ConfigProblem>& problems) {
  NXDKIT_CHECK(!problems.empty());
  const ConfigProblem& first = problems.front();
  if (problems.size() == 1) {
    Error error = Error(first.code, first.message).in(first.place).member(first.key);
    return first.fix.empty() ? error : std::move(error).hint(first.fix);
  }
  const size_t shown = std::min(problems.size(), kShownProblems);
  std::string text = fmt::format("{} problems in the configuration", problems.size());
  if (shown < problems.size())
    text += fmt::format(" ({} here, and {} more)", shown, problems.size() - shown);
  text += ":";
  for (size_t i = 0; i < shown; ++i)
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
  if (config.trainer.cores) return;  // null counts as absent
  config.trainer.cores = cores;
  sources[static_cast<size_t>(FindConfigKey(kCores) - ConfigKeys().data())] = {
      SourceKind::kMachine, {}, from};
}

Result<LoadedConfig> LoadConfigText(std::string_view yaml, const std::string& path,
                                    std::span<const std::string> overrides,
                                    const Inherited* inherited) {
  LoadedConfig loaded;
  loaded.path = path;
  loaded.sources.resize(ConfigKeys().size());
  Merger merger(loaded);
  Result<Value> root = ParseYaml(yaml, LimitsOfConfig());
  if (!root.ok()) return std::move(root).error().in(path);
  std::vector<Said> all;
  if (root->kind != ValueKind::kNull) {
    NXDKIT_TRY(RefuseOthers(WithoutDots(*root)).in(path));
    all.push_back({"", std::move(root).value(), {}, ""});
  }
  for (const std::string& text : overrides) {
    if (NamesFile(text)) continue;
    if (auto said = ReadOverride(text, merger)) all.push_back(*std::move(said));
  }
  const Value merged = Merged(all);
  NXDKIT_TRY(RefuseOthers(merged).in("command line"));
  std::vector<InterpolationFault> faults;
  const Value interpolated = Interpolated(merged, faults);
  RefuseFaults(faults, all, merger);
  for (Said& said : all) {
    TakeInterpolated(interpolated, said.path, said.value);
    merger.Apply(said);
  }
  merger.Finish();
  if (inherited && merger.problems().empty()) ApplyInherited(*inherited, loaded);
  if (merger.problems().empty()) TakePaths(loaded, merger.problems());
  if (!merger.problems().empty()) return ProblemsError(merger.problems());
  DeriveConfig(loaded.config);
  return loaded;
}

Result<LoadedConfig> LoadConfig(const std::string& path, std::span<const std::string> overrides,
                                const Inherited* inherited) {
  std::string file = path;
  for (const std::string& text : overrides)
    if (file.empty() && NamesFile(text))
      NXDKIT_TRY(UserPath(text.substr(std::string_view("config=").size())).To(file));
  std::string yaml;
  if (!file.empty()) {
    NXDKIT_ASSIGN(yaml, ReadSmallFile(file, kMaxFileBytes));
    if (std::optional<Error> wrong = WrongAnswer(file)) return *std::move(wrong);
    NXDKIT_TRY(RefuseOtherTexts(yaml).in(file));
    const Result<Value> root = ParseYaml(yaml, LimitsOfConfig());
    const bool says_nothing =
        root.ok() && (root->kind == ValueKind::kNull ||
                      (root->kind == ValueKind::kMap && root->entries.empty()));
    if (says_nothing) return BadUsage("the configuration sets no key").in(file);
  }
  return LoadConfigText(yaml, file, overrides, inherited);
}

}  // namespace nxdkit::trainer
