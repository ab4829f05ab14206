// PRIVATE to formats/kinds and tools/inspect: ckpt-inspect's facts about an artifact, as rows. Each
// is described once and shown twice: as a line for people and as a key of --json, or as one of the
// two.
#pragma once

#include <fmt/core.h>

#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "formats/kinds/survey.h"
#include "lib/base/text.h"
#include "lib/json/json.h"

namespace nxdkit::kinds {

struct Fact {
  std::string label;  // "" for no line
  std::string text;   // any bytes: escaped when shown
  std::string key;    // "" for no key
  Json value;
};

struct Facts {
  std::vector<Fact> rows;

  void Add(std::string_view label, std::string text, std::string_view key, Json value) {
    rows.push_back({std::string(label), std::move(text), std::string(key), std::move(value)});
  }
  void Append(const Facts& more) { rows.insert(rows.end(), more.rows.begin(), more.rows.end()); }
  void Line(std::string_view label, std::string text) { Add(label, std::move(text), "", {}); }
  void Key(std::string_view key, Json value) { Add("", "", key, std::move(value)); }
};

// The rows of the kinds, by their position among those that every artifact has. All kinds add their
// keys to every answer: null, or an empty list, if the artifact is of another kind.
struct KindFacts {
  Json layout = Json::object();  // the key `layout`: how the ranks share the model
  Facts first;                   // after it
  Facts files;                   // after the files of the weights
  Facts last;                    // after the training files that any artifact may have

  // Adds keys of `layout` that no other kind has set before.
  void LayoutKeys(std::initializer_list<const char*> keys) {
    for (const char* key : keys) layout.emplace(key, nullptr);
  }
};

inline constexpr size_t kShownItems = 8;    // of lists inside one line
inline constexpr size_t kShownValue = 200;  // bytes of a text from a file

inline std::string Short(std::string_view text) { return std::string(text.substr(0, kShownValue)); }

// "a, b, c and 12 more"
template <typename List, typename Text>
std::string Joined(const List& list, const Text& text) {
  std::string out;
  size_t shown = 0;
  for (const auto& item : list) {
    if (shown == kShownItems) return out + fmt::format(" and {} more", list.size() - shown);
    out += (shown++ == 0 ? "" : ", ") + text(item);
  }
  return out;
}

template <typename List, typename Make>
Json ArrayOf(const List& list, const Make& make) {
  Json json = Json::array();
  for (const auto& item : list) json.push_back(make(item));
  return json;
}

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
inline Json FiniteOrNull(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json();
}

inline std::string ItemText(const Item& item) {  // "model.pt (1.5 MB)"
  return fmt::format("{} ({})", item.name, HumanBytes(item.bytes));
}
inline Json ItemsJson(const std::vector<Item>& items) {
  return ArrayOf(items, [](const Item& item) -> Json {
    return {{"name", item.name}, {"bytes", item.bytes}};
  });
}

}  // namespace nxdkit::kinds
