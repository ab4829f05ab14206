#include "trainer/config/key_table.h"

#include <algorithm>
#include <type_traits>

#include "trainer/config/key_rows.h"

namespace nxdkit::trainer {
namespace {

struct DerivedRow {
  std::string_view path;
  std::string_view from;
};

// Keys that a config dump of EasyR1 shows, but that only the program sets.
constexpr DerivedRow kDerived[] = {
    {"worker.actor.global_batch_size_per_device", "worker.actor.global_batch_size"},
    {"worker.actor.disable_kl", "algorithm.disable_kl"},
    {"worker.actor.use_kl_loss", "algorithm.use_kl_loss"},
    {"worker.actor.kl_penalty", "algorithm.kl_penalty"},
    {"worker.actor.kl_coef", "algorithm.kl_coef"},
    {"worker.actor.optim.training_steps", "trainer.max_steps"},
    {"worker.critic.global_batch_size_per_device", "worker.critic.global_batch_size"},
    {"worker.critic.optim.training_steps", "trainer.max_steps"},
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

}  // namespace

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

bool IsUnset(const ConfigSlot& slot) { return SlotText(slot) == "null"; }

std::vector<std::string> SplitWords(std::string_view words) {
  std::vector<std::string> list;
  while (!words.empty()) {
    const size_t end = std::min(words.find('|'), words.size());
    list.emplace_back(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return list;
}

}  // namespace nxdkit::trainer
