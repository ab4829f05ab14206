#include "trainer/config/interpolate.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/text.h"
#include "lib/yaml/interpolate.h"
#include "lib/yaml/yaml.h"
#include "trainer/base/characters.h"
#include "trainer/config/key_table.h"
#include "trainer/config/old_names.h"

namespace nxdkit::trainer {
namespace {

constexpr std::string_view kHome = "HOME";
constexpr std::string_view kHomeWord = "${HOME}";

const Value* ValueAt(const Value& root, std::string_view path) {
  const Value* at = &root;
  for (const std::string_view part : Split(path, '.'))
    if (at != nullptr) at = at->Find(part);
  return at;
}

// A group that is not a map is left alone: the merger will report it.
void AddDefault(Value& root, std::string_view path, const Value& value) {
  Value* at = &root;
  for (const std::string_view part : Split(path, '.')) {
    if (at->kind != ValueKind::kMap) return;
    auto found = std::ranges::find(at->entries, part, &ValueEntry::key);
    if (found == at->entries.end()) {
      at->entries.push_back({std::string(part), {}, Value::Map()});
      found = at->entries.end() - 1;
    }
    at = &found->value;
  }
  *at = value;
}

// A value under an older name is also set under today's.
void AddTodaysNames(Value& root) {
  for (const OldName& old : OldNames()) {
    const Value* found = ValueAt(root, old.path);
    if (found == nullptr) continue;
    const Value value = *found;
    for (const std::string& name : SplitWords(old.becomes))
      if (ValueAt(root, name) == nullptr) AddDefault(root, name, value);
  }
}

Value WithDefaults(Value root) {
  AddTodaysNames(root);
  Config defaults;
  for (const ConfigKey& key : ConfigKeys()) {
    if (IsConfigGroup(key.path) || ValueAt(root, key.path) != nullptr) continue;
    Result<Value> written = ParseYaml(SlotText(key.slot(defaults)));
    NXDKIT_CHECK(written.ok());
    AddDefault(root, key.path, *written);
  }
  // $HOME as in a shell, for lib/system/user_path.h.
  AddDefault(root, kHome, ResolveScalar("$HOME"));
  return root;
}

// "oc.env:X,0" of the first ${...} with a ':'; "" where there is none.
std::string_view ResolverIn(std::string_view text) {
  for (size_t open; (open = text.find(kInterpolation)) != text.npos;) {
    text.remove_prefix(open + kInterpolation.size());
    const std::string_view inside = text.substr(0, text.find('}'));
    if (inside.find(':') != inside.npos) return inside;
  }
  return "";
}

bool IsOfName(char c) { return IsAlnum(c) || c == '_'; }

// "oc.env:X,0" is $X, or ${X} before a character that would be read as part of the name.
std::string ShellVariable(std::string_view inside, char next) {
  const std::string_view rest = inside.substr(inside.find(':') + 1);
  const std::string name = std::string(rest.substr(0, rest.find(',')));
  return IsOfName(next) ? "${" + name + "}" : "$" + name;
}

// "now:%Y-%m" is $(date +%Y-%m).
std::string ShellDate(std::string_view inside) {
  const std::string_view format = inside.substr(inside.find(':') + 1);
  const bool is_word = std::ranges::all_of(
      format, [](char c) { return IsOfName(c) || c == '%' || c == '-' || c == '.'; });
  const std::string_view quote = is_word ? "" : "'";
  return fmt::format("$(date {0}+{1}{0})", quote, format);
}

// The whole value, to stand between a shell's double quotes: the shell replaces what is not
// replaced here.
std::string ShellText(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t open = text.find(kInterpolation);
    out += text.substr(0, open);
    if (open == text.npos) break;
    text.remove_prefix(open);
    const size_t close = text.find('}');
    const std::string_view inside =
        text.substr(kInterpolation.size(), close - kInterpolation.size());
    const char next = close < text.size() - 1 ? text[close + 1] : '\0';
    const std::string_view resolver = inside.substr(0, inside.find(':'));
    if (resolver == "oc.env" || resolver == "env")
      out += ShellVariable(inside, next);
    else if (resolver == "now")
      out += ShellDate(inside);
    else
      out += "\\" + std::string(text.substr(0, close == text.npos ? close : close + 1));
    text.remove_prefix(close == text.npos ? text.size() : close + 1);
  }
  return out;
}

InterpolationFault FaultOf(const Unresolved& left) {
  InterpolationFault fault{left.key, left.place, "", "write the value"};
  const std::string key = EscapeControl(left.key);
  const std::string_view inside = ResolverIn(left.text);
  const std::string_view resolver = inside.substr(0, inside.find(':'));
  if (resolver == "oc.env" || resolver == "env") {
    fault.message = fmt::format("${{{}}}: variables of the environment are not read here",
                                EscapeControl(inside));
    fault.fix = fmt::format("write the value, or pass it to the command: \"{}={}\"", key,
                            EscapeControl(ShellText(left.text)));
  } else if (resolver == "now") {
    fault.message = fmt::format(
        "${{{}}}: the time is not read here, because a continued run needs the same "
        "name",
        EscapeControl(inside));
    fault.fix = fmt::format("write it, or pass it to the command: \"{}={}\"", key,
                            EscapeControl(ShellText(left.text)));
  } else {
    fault.message = fmt::format("{}: {}", EscapeControl(left.text), left.reason);
  }
  return fault;
}

bool IsPathKey(std::string_view path) {
  const ConfigKey* key = FindConfigKey(path);
  return key != nullptr && IsPathLimit(key->limit);
}

// A home folder is possible in paths only.
void RefuseHome(const std::string& path, const Value& value,
                std::vector<InterpolationFault>& faults) {
  const size_t at = IsInterpolated(value) ? value.text.rfind(kHomeWord) : std::string::npos;
  if (at != std::string::npos && (at > 0 || !IsPathKey(path)))
    faults.push_back({path, value.place,
                      fmt::format("{}: HOME is not a key", EscapeControl(value.text)),
                      "write the folder; at the front of a path ~ is the home folder"});
  for (const Value& item : value.items) RefuseHome(path, item, faults);
  for (const ValueEntry& entry : value.entries)
    RefuseHome(path.empty() ? entry.key : path + "." + entry.key, entry.value, faults);
}

}  // namespace

Value Interpolated(const Value& merged, std::vector<InterpolationFault>& faults) {
  if (!HasInterpolations(merged)) return merged;
  RefuseHome("", merged, faults);
  std::vector<Unresolved> left;
  Value interpolated = Interpolate(WithDefaults(merged), &left);
  for (const Unresolved& one : left) faults.push_back(FaultOf(one));
  return interpolated;
}

void TakeInterpolated(const Value& interpolated, const std::string& path, Value& value) {
  if (value.kind == ValueKind::kMap) {
    for (ValueEntry& entry : value.entries)
      TakeInterpolated(interpolated, path.empty() ? entry.key : path + "." + entry.key,
                       entry.value);
    return;
  }
  const Value* found = HasInterpolations(value) ? ValueAt(interpolated, path) : nullptr;
  if (found != nullptr) value = *found;
}

}  // namespace nxdkit::trainer
