#include "trainer/config/key_table.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/text.h"
#include "trainer/base/characters.h"
#include "trainer/config/key_rows.h"

namespace nxdkit::trainer {
namespace {

struct DerivedRow {
  std::string_view path;
  std::string_view from;
};

// Keys in a config dump of EasyR1 that only the program sets.
constexpr DerivedRow kDerived[] = {
    {"worker.actor.global_batch_size_per_device", "worker.actor.global_batch_size"},
    {"worker.actor.disable_kl", "algorithm.disable_kl"},
    {"worker.actor.use_kl_loss", "algorithm.use_kl_loss"},
    {"worker.actor.kl_penalty", "algorithm.kl_penalty"},
    {"worker.actor.kl_coef", "algorithm.kl_coef"},
    {"worker.critic.global_batch_size_per_device", "worker.critic.global_batch_size"},
    {"worker.ref.micro_batch_size_per_device_for_experience",
     "worker.actor.micro_batch_size_per_device_for_experience"},
    {"worker.ref.padding_free", "worker.actor.padding_free"},
    {"worker.ref.dynamic_batching", "worker.actor.dynamic_batching"},
    {"worker.ref.ulysses_size", "worker.actor.ulysses_size"},
    {"worker.ref.use_torch_compile", "worker.actor.use_torch_compile"},
    {"worker.rollout.prompt_length", "data.max_prompt_length"},
    {"worker.rollout.response_length", "data.max_response_length"},
    {"worker.rollout.trust_remote_code", "worker.actor.model.trust_remote_code"},
};

// In the order of the alternatives of ConfigSlot.
constexpr std::string_view kTypes[] = {"bool",           "int",         "float",  "str",
                                       "bool?",          "int?",        "float?", "str?",
                                       "[float, float]", "list of str", "map"};
static_assert(std::size(kTypes) == std::variant_size_v<ConfigSlot>);

std::string Text(bool value) { return value ? "true" : "false"; }
std::string Text(int64_t value) { return std::to_string(value); }
std::string Text(double value) { return NumberText(value); }
std::string Text(const std::string& value) { return QuotedText(value); }
std::string Text(const Value& value) { return ValueText(value); }
std::string Text(const std::array<double, 2>& value) {
  return "[" + NumberText(value[0]) + ", " + NumberText(value[1]) + "]";
}
std::string Text(const std::vector<std::string>& value) {
  std::string text;
  for (const std::string& word : value) text += (text.empty() ? "" : ", ") + QuotedText(word);
  return "[" + text + "]";
}
template <typename T>
std::string Text(const std::optional<T>& value) {
  return value ? Text(*value) : "null";
}

bool IsScalar(const Value& value) {
  return value.kind != ValueKind::kNull && value.kind != ValueKind::kList &&
         value.kind != ValueKind::kMap;
}

template <typename T>
bool TakeIf(bool fits, const T& value, T* to) {
  if (fits) *to = value;
  return fits;
}
bool Take(const Value& value, bool* to) {
  return TakeIf(value.kind == ValueKind::kBool, value.boolean, to);
}
bool Take(const Value& value, int64_t* to) {
  return TakeIf(value.kind == ValueKind::kInt, value.integer, to);
}
bool Take(const Value& value, double* to) {
  const bool fits = value.kind == ValueKind::kInt || value.kind == ValueKind::kDouble;
  return TakeIf(fits, value.number, to);
}
bool Take(const Value& value, std::string* to) { return TakeIf(IsScalar(value), value.text, to); }

bool Take(const Value& value, std::array<double, 2>* to) {
  std::array<double, 2> pair;
  if (value.kind != ValueKind::kList || value.items.size() != 2) return false;
  if (!Take(value.items[0], &pair[0]) || !Take(value.items[1], &pair[1])) return false;
  *to = pair;
  return true;
}

bool Take(const Value& value, std::vector<std::string>* to) {
  if (value.kind != ValueKind::kList) return false;
  std::vector<std::string> list(value.items.size());
  for (size_t i = 0; i < list.size(); ++i)
    if (!Take(value.items[i], &list[i])) return false;
  *to = std::move(list);
  return true;
}

bool Take(const Value& value, Value* to) {
  if (value.kind != ValueKind::kMap) return false;
  MergeValue(*to, value);
  return true;
}

template <typename T>
bool Take(const Value& value, std::optional<T>* to) {
  if (value.kind == ValueKind::kNull) {
    to->reset();
    return true;
  }
  T inner{};
  if (!Take(value, &inner)) return false;
  *to = std::move(inner);
  return true;
}

std::string Found(const Value& value) {
  constexpr size_t kLongest = 60;
  if (value.kind == ValueKind::kNull) return "null";
  const std::string text = EscapeControl(ValueText(value));
  return fmt::format("{} {}{}", ValueKindText(value.kind), text.substr(0, kLongest),
                     text.size() > kLongest ? "..." : "");
}

}  // namespace

bool IsPathLimit(KeyLimit limit) {
  return limit == KeyLimit::kFile || limit == KeyLimit::kFolder || limit == KeyLimit::kPath ||
         limit == KeyLimit::kData;
}

std::span<const ConfigKey> ConfigKeys() {
  static const std::vector<ConfigKey> keys = MakeConfigKeys();
  return keys;
}

const ConfigKey* FindConfigKey(std::string_view path) {
  for (const ConfigKey& key : ConfigKeys())
    if (key.path == path) return &key;
  return nullptr;
}

bool IsConfigGroup(std::string_view path) {
  return std::ranges::any_of(ConfigKeys(), [&](const ConfigKey& key) {
    return key.path.size() > path.size() && key.path.starts_with(path) &&
           key.path[path.size()] == '.';
  });
}

std::string_view DerivedFrom(std::string_view path) {
  for (const DerivedRow& row : kDerived)
    if (row.path == path) return row.from;
  return "";
}

std::string_view TypeText(const ConfigSlot& slot) { return kTypes[slot.index()]; }

std::string SlotText(const ConfigSlot& slot) {
  return std::visit([](const auto* value) { return Text(*value); }, slot);
}

std::string AssignSlot(const ConfigSlot& slot, const Value& value) {
  const bool taken = std::visit([&](auto* to) { return Take(value, to); }, slot);
  return taken ? "" : fmt::format("expected {}, found {}", TypeText(slot), Found(value));
}

std::vector<std::string> SplitWords(std::string_view words) {
  if (words.empty()) return {};
  const std::vector<std::string_view> parts = Split(words, '|');
  return {parts.begin(), parts.end()};
}

}  // namespace nxdkit::trainer
