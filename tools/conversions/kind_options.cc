#include "tools/conversions/kind_options.h"

#include <algorithm>

#include "formats/kinds/table.h"

namespace nxdkit::tool {
namespace {

using kinds::Kind;

using MergedRow = OptionTable::KindOption;

bool Contains(const auto& list, std::string_view name) {
  return std::ranges::find(list, name) != std::ranges::end(list);
}

void Merge(std::vector<MergedRow>& rows, const kinds::OptionRow& row, const Kind* kind) {
  const std::string of(kind ? kind->name : ""), value(row.value), help(row.help);
  const auto known = std::ranges::find_if(
      rows, [&](const MergedRow& merged) { return merged.row.name() == row.name(); });
  if (known == rows.end()) {
    rows.push_back({row, row.choices(), help, {}});
    if (kind) rows.back().kinds.push_back({of, value, help});
    return;
  }
  known->kinds.push_back({of, value, help});
  for (std::string& choice : row.choices())
    if (!Contains(known->choices, choice)) known->choices.push_back(std::move(choice));
  if (known->row.help != row.help) known->help += "; " + of + ": " + help;
}

std::vector<MergedRow> RowsOf(const OptionChoice& choice) {
  std::vector<MergedRow> rows;
  for (const auto& [kind, sides] : choice.kinds)
    for (const kinds::OptionRow& row : kind->options)
      if ((row.sides & sides) != 0 && !Contains(choice.without, row.name())) Merge(rows, row, kind);
  for (const kinds::OptionRow& row : kinds::CommonRows())
    if (Contains(choice.common, row.name())) Merge(rows, row, nullptr);
  return rows;
}

}  // namespace

OptionChoice OfAllKinds(unsigned sides, std::vector<std::string_view> common,
                        std::vector<std::string_view> without) {
  OptionChoice choice{{}, std::move(common), std::move(without)};
  for (const Kind* kind : kinds::Kinds()) choice.kinds.push_back({kind, sides});
  return choice;
}

OptionChoice OfReader(std::vector<std::string_view> without) {
  return OfAllKinds(kinds::kAsRead, {"config", "family", "lora-alpha"}, std::move(without));
}

void AddKindOptions(OptionTable& table, artifact::Arguments& to, const OptionChoice& choice,
                    std::string_view heading, std::string_view prefix) {
  table.Group(heading);
  for (const MergedRow& merged : RowsOf(choice))
    table.Argument(prefix.empty() ? std::string(merged.row.names)
                                  : std::string(prefix) + std::string(merged.row.name()),
                   merged, &to);
}

std::vector<std::string> KindNames(std::vector<std::string_view> without) {
  std::vector<std::string> names;
  for (const Kind* kind : kinds::Kinds())
    if (!Contains(without, kind->name)) names.emplace_back(kind->name);
  return names;
}

std::optional<std::string> FirstOption(const artifact::Arguments& given) {
  constexpr unsigned kAnySide = ~0u;
  for (const MergedRow& merged :
       RowsOf(OfAllKinds(kAnySide, {"config", "family", "merge-lora", "lora-alpha", "dtype"})))
    if (given.Has(merged.row.name())) return "--" + std::string(merged.row.name());
  return std::nullopt;
}

}  // namespace nxdkit::tool
