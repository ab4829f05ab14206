// The listed tensors as an aligned table.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "lib/base/text.h"
#include "tools/inspect/inspect_report.h"

namespace nxdkit::ops {
namespace {

struct Column {
  const char* heading;
  bool right;  // numbers
};

using Row = std::vector<std::string>;

// Columns on a terminal: code points, as far as that tells.
size_t Width(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string Render(const std::vector<Column>& columns, const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns.size(); ++c) {
    size_t width = Width(columns[c].heading);
    for (const Row& row : rows) width = std::max(width, Width(row[c]));
    widths.push_back(width);
  }
  std::string out;
  const auto add = [&](const auto& cell) {
    for (size_t c = 0; c < columns.size(); ++c) {
      const std::string_view text = cell(c);
      const size_t pad = widths[c] - Width(text);
      if (c > 0) out += "  ";
      if (columns[c].right) out.append(pad, ' ');
      out += text;
      if (!columns[c].right && c + 1 < columns.size()) out.append(pad, ' ');
    }
    out += '\n';
  };
  add([&](size_t c) { return std::string_view(columns[c].heading); });
  for (const Row& row : rows) add([&](size_t c) { return std::string_view(row[c]); });
  return out;
}

std::string RankText(const LayoutFile& file) {
  if (file.tp_rank < 0) return "-";
  return file.pp_rank < 0 ? fmt::format("tp {}", file.tp_rank)
                          : fmt::format("tp {} pp {}", file.tp_rank, file.pp_rank);
}

std::string NumberText(const std::optional<double>& value) {
  return value ? fmt::format("{:.6g}", *value) : "-";
}

void AddStatistics(Row& row, const std::optional<TensorStatistics>& statistics) {
  if (!statistics) return row.insert(row.end(), 6, "-"), void();
  row.push_back(NumberText(statistics->min));
  row.push_back(NumberText(statistics->max));
  row.push_back(NumberText(statistics->mean));
  row.push_back(fmt::format("{}", statistics->nan));
  row.push_back(fmt::format("{}", statistics->inf));
  row.push_back(fmt::format("{}", statistics->zeros));
}

bool HasRanks(const Inspection& inspection) {
  return std::ranges::any_of(inspection.artifact.ranks,
                             [](const LayoutFile& file) { return file.tp_rank >= 0; });
}

}  // namespace

std::string TensorTable(const Inspection& inspection, const std::vector<TensorPlace>& listed,
                        const ListedStatistics& statistics) {
  if (listed.empty()) return "";
  const bool ranks = HasRanks(inspection);
  std::vector<Column> columns = {
      {"name", false}, {"dtype", false}, {"shape", false}, {"bytes", true}};
  if (!statistics.empty())
    for (const char* heading : {"min", "max", "mean", "nan", "inf", "zeros"})
      columns.push_back({heading, true});
  if (ranks) columns.push_back({"rank", false});
  columns.push_back({"file", false});

  std::vector<Row> rows;
  rows.reserve(listed.size());
  for (size_t i = 0; i < listed.size(); ++i) {
    const StoredTensor& tensor = inspection.tensor(listed[i]);
    Row row = {EscapeControl(tensor.name), std::string(Name(tensor.dtype)), ShapeText(tensor.shape),
               HumanBytes(TensorBytes(tensor))};
    if (!statistics.empty()) AddStatistics(row, statistics[i]);
    if (ranks) row.push_back(RankText(inspection.artifact.ranks[listed[i].file]));
    row.push_back(EscapeControl(FileOf(inspection, listed[i])));
    rows.push_back(std::move(row));
  }
  return Render(columns, rows);
}

}  // namespace nxdkit::ops
