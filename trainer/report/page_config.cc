#include "trainer/report/page_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "lib/base/text.h"
#include "lib/page/html.h"

namespace nxdkit::trainer {
namespace {

struct ConfigKey {
  std::string name;
  std::vector<const std::string*> values;  // of each run; nullptr: not set
  bool IsEqual() const {
    return std::ranges::all_of(values, [&](const std::string* value) {
      return value && values[0] && *value == *values[0];
    });
  }
};

// The keys of all runs, in the order of the first that has them.
std::vector<ConfigKey> KeysOf(const PageRuns& runs) {
  std::vector<ConfigKey> keys;
  std::map<std::string_view, size_t> places;
  for (const PageRun& run : runs)
    for (const auto& [name, value] : run.files->config) {
      const auto [place, is_new] = places.try_emplace(name, keys.size());
      if (is_new) keys.push_back({name, std::vector<const std::string*>(runs.size())});
      keys[place->second].values[run.place] = &value;
    }
  return keys;
}

}  // namespace

std::string DifferentConfig(const PageRuns& runs) {
  const std::vector<ConfigKey> keys = KeysOf(runs);
  if (runs.size() == 1 || keys.empty()) return "";
  for (const PageRun& run : runs)
    if (run.files->config.empty())
      return "<h2>Configuration</h2>\n<p class=\"soft\">Not compared: " + page::Escape(run.label) +
             " has none.</p>\n";
  std::vector<PageRow> rows;
  for (const ConfigKey& key : keys) {
    if (key.IsEqual()) continue;
    PageRow row{.name = key.name, .cells = {}};
    for (const std::string* value : key.values)
      row.cells.push_back(value ? page::Escape(*value) : "<i>not set</i>");
    rows.push_back(std::move(row));
  }
  return fmt::format(
      "<h2>Configuration</h2>\n<p class=\"soft\">{} with different values, {} with "
      "the same.</p>\n{}",
      Counted(rows.size(), "key"), Grouped(keys.size() - rows.size()), RunTable(runs, rows));
}

std::string EqualConfig(const PageRuns& runs) {
  std::vector<std::vector<std::string>> rows;
  for (const ConfigKey& key : KeysOf(runs))
    if (key.IsEqual()) rows.push_back({page::NameHtml(key.name), page::Escape(*key.values[0])});
  if (rows.empty()) return "";
  const std::string name = runs.size() == 1 ? "Configuration" : "Configuration of all runs";
  return page::Details(fmt::format("{}, {}", name, Counted(rows.size(), "key")),
                       page::Table({}, rows));
}

}  // namespace nxdkit::trainer
