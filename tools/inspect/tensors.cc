#include "tools/inspect/tensors.h"

#include <algorithm>

#include "formats/kinds/facts.h"
#include "formats/ops/inspect/tensors.h"

namespace nxdkit::tool {
namespace {

using ops::Inspection;
using ops::TensorPlace;

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
    widths.push_back(0);
    for (const Row& row : rows) widths[c] = std::max(widths[c], Width(row[c]));
  }
  std::string out;
  for (const Row& row : rows) {
    for (size_t c = 0; c < columns.size(); ++c) {
      const std::string pad(widths[c] - Width(row[c]), ' ');
      if (c > 0) out += "  ";
      if (columns[c].right) out += pad;
      out += row[c];
      if (!columns[c].right && c + 1 < columns.size()) out += pad;
    }
    out += '\n';
  }
  return out;
}

std::string RankText(const LayoutFile& file) {
  if (file.tp_rank < 0) return "-";
  return file.pp_rank < 0 ? fmt::format("tp {}", file.tp_rank)
                          : fmt::format("tp {} pp {}", file.tp_rank, file.pp_rank);
}

void AddStatistics(Row& row, const std::optional<ops::TensorStatistics>& statistics) {
  if (!statistics) return row.insert(row.end(), 6, "-"), void();
  for (const auto& value : {statistics->min, statistics->max, statistics->mean})
    row.push_back(value ? fmt::format("{:.6g}", *value) : "-");
  for (const uint64_t count : {statistics->nan, statistics->inf, statistics->zeros})
    row.push_back(fmt::format("{}", count));
}

Json StatisticsJson(const std::optional<ops::TensorStatistics>& statistics) {
  if (!statistics) return {};
  return {{"min", ops::FiniteOrNull(statistics->min)},
          {"max", ops::FiniteOrNull(statistics->max)},
          {"mean", ops::FiniteOrNull(statistics->mean)},
          {"nan", statistics->nan},
          {"inf", statistics->inf},
          {"zeros", statistics->zeros}};
}

}  // namespace

std::string TensorTable(const Inspection& inspection, const std::vector<TensorPlace>& listed,
                        const ListedStatistics& statistics) {
  if (listed.empty()) return "";
  const bool ranks = std::ranges::any_of(inspection.artifact.ranks,
                                         [](const LayoutFile& file) { return file.tp_rank >= 0; });
  std::vector<Column> columns = {
      {"name", false}, {"dtype", false}, {"shape", false}, {"bytes", true}};
  if (!statistics.empty())
    for (const char* heading : {"min", "max", "mean", "nan", "inf", "zeros"})
      columns.push_back({heading, true});
  if (ranks) columns.push_back({"rank", false});
  columns.push_back({"file", false});

  std::vector<Row> rows(1);
  for (const Column& column : columns) rows[0].emplace_back(column.heading);
  for (size_t i = 0; i < listed.size(); ++i) {
    const StoredTensor& tensor = inspection.tensor(listed[i]);
    Row row = {EscapeControl(tensor.name), std::string(Name(tensor.dtype)), ShapeText(tensor.shape),
               HumanBytes(ops::TensorBytes(tensor))};
    if (!statistics.empty()) AddStatistics(row, statistics[i]);
    if (ranks) row.push_back(RankText(inspection.artifact.ranks[listed[i].file]));
    row.push_back(EscapeControl(FileOf(inspection, listed[i])));
    rows.push_back(std::move(row));
  }
  return Render(columns, rows);
}

Json TensorsJson(const Inspection& inspection, const std::vector<TensorPlace>& listed,
                 const ListedStatistics& statistics) {
  Json json = Json::array();
  for (size_t i = 0; i < listed.size(); ++i) {
    const StoredTensor& tensor = inspection.tensor(listed[i]);
    const bool plain = tensor.storage && tensor.storage->is_file_range();
    json.push_back(
        {{"name", tensor.name},
         {"dtype", Name(tensor.dtype)},
         {"shape", tensor.shape},
         {"bytes", ops::TensorBytes(tensor)},
         {"weight_file", listed[i].file},
         {"file", FileOf(inspection, listed[i])},
         {"offset", plain ? Json(tensor.storage->file_offset() + tensor.offset) : Json()}});
    if (!statistics.empty()) json.back()["stats"] = StatisticsJson(statistics[i]);
  }
  return json;
}

}  // namespace nxdkit::tool
