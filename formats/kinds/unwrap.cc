#include "formats/kinds/unwrap.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <unordered_set>

namespace nxdkit::kinds {
namespace {

std::string Peeled(std::string_view stored, std::string_view outer) {
  std::string plain = WithoutWrappers(stored);
  if (plain.starts_with(outer)) plain.erase(0, outer.size());
  return plain;
}

size_t Known(const std::vector<std::string_view>& stored, const Unwrapping& by) {
  return static_cast<size_t>(std::ranges::count_if(
      stored, [&](std::string_view name) { return by.knows(by.NameOf(name)); }));
}

bool MakesTwins(const std::vector<std::string_view>& stored, const Unwrapping& by) {
  std::unordered_set<std::string> names;
  return !std::ranges::all_of(
      stored, [&](std::string_view name) { return names.insert(by.NameOf(name)).second; });
}

}  // namespace

std::string Unwrapping::NameOf(std::string_view stored) const {
  if (!changes || knows(stored)) return std::string(stored);
  std::string plain = Peeled(stored, outer);
  return !knows(plain) && knows(lacking + plain) ? lacking + plain : plain;
}

std::string Unwrapping::Text() const {
  std::string text = "the names of the tensors are taken without what is around them";
  if (!outer.empty()) text += fmt::format(": \"{}\"", outer);
  if (!lacking.empty())
    text = fmt::format("the names of the tensors lack the model's \"{}\"", lacking);
  return text;
}

std::string MostFrequent(const std::vector<std::string>& wrappers) {
  std::map<std::string, size_t> counts;
  for (const std::string& wrapper : wrappers) ++counts[wrapper];
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto& item) { return item.second; });
  return most == counts.end() ? "" : most->first;
}

Unwrapping FindUnwrapping(const std::vector<std::string_view>& stored, KnowsName knows) {
  Unwrapping best{std::move(knows), false, "", ""};
  size_t most = Known(stored, best);
  if (most == stored.size()) return best;
  std::vector<std::string> wrappers;
  for (const std::string_view name : stored)
    if (std::string before = BeforeKnown(WithoutWrappers(name), best.knows); !before.empty())
      wrappers.push_back(std::move(before));
  std::string outer = MostFrequent(wrappers);
  const std::string lacking(kModelPrefix);
  // A wrapper on few names may be another model's.
  if (2 * std::ranges::count(wrappers, outer) < std::ssize(stored)) outer.clear();
  for (const Unwrapping& other :
       {Unwrapping{best.knows, true, "", ""}, Unwrapping{best.knows, true, outer, ""},
        Unwrapping{best.knows, true, "", lacking}}) {
    const size_t known = Known(stored, other);
    if (known <= most || MakesTwins(stored, other)) continue;
    best = other;
    most = known;
  }
  return best;
}

}  // namespace nxdkit::kinds
