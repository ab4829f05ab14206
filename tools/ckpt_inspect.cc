// ckpt-inspect: shows the kind and the contents of an artifact.
#include <fmt/core.h>

#include <algorithm>

#include "formats/kinds/facts.h"
#include "formats/kinds/open.h"
#include "formats/ops/inspect/statistics.h"
#include "formats/ops/inspect/tensors.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"
#include "tools/cli/terminal.h"
#include "tools/cli/tool.h"
#include "tools/commands.h"
#include "tools/conversions/kind_options.h"
#include "tools/conversions/sides.h"
#include "tools/inspect/report.h"
#include "tools/pictures/inspect_page.h"
#include "tools/pictures/page_file.h"

namespace nxdkit::tool {
namespace {

struct Args {
  std::string path;
  std::optional<std::string> from;
  std::vector<std::string> filters;
  std::optional<int> top;
  bool stats = false;
  std::optional<std::string> html;
  artifact::Arguments layout;
};

constexpr size_t kShownTensors = 20;  // without --top, --filter and --json

const ToolInfo kInfo = {
    .name = "ckpt-inspect",
    .summary = "shows the kind and contents of a checkpoint",
    .details =
        "PATH is a Hugging Face folder, a safetensors file, a torch archive, an NxD shard set, "
        "one of its shards or its optimizer, a rollout bundle, a compiled model.pt or NEFF, a "
        "compile cache, or a LoRA adapter. Values are read only with --stats, and no file content "
        "is ever executed.\n"
        "Layout options describe an NxD set without a record of its layout.",
    .findings = "",
    .common = kTakesJobs | kTakesMaxMemory | kTakesForce,
    .essentials = {"top", "filter", "stats", "html", "tag", "json"},
    .examples = {{"ckpt-inspect shards", "show what is in a folder"},
                 {"ckpt-inspect --filter '*self_attn*' --top 10 --stats model",
                  "list the ten largest attention tensors with their value ranges"},
                 {"ckpt-inspect --html shards.html shards",
                  "draw the tensors by size, and the ranks that hold them"},
                 {"ckpt-inspect --json --top 0 bundle", "print only the summary, for a script"}},
};

void AddOptions(OptionTable& table, Args& args) {
  table.Group("Input");
  table.Positional("PATH", &args.path, "folder or file to inspect");
  table.Choice("from", KindNames({"delta"}), &args.from, "format of PATH; recognised by default");
  table.Group("Tensors to list");
  table.Integer("top", "N", &args.top, {0, std::numeric_limits<int>::max()},
                "list only the N largest tensors; 0 lists none");
  table.TextList("filter", "GLOB", &args.filters,
                 "list only tensors whose names match this pattern");
  table.Flag("stats", &args.stats,
             "print the minimum, maximum, mean, NaN, Inf and zeros of the values");
  AddHtmlOption(
      table, &args.html,
      "also write a page for a browser: the tensors by size, and the ranks that hold them");
  AddKindOptions(table, args.layout, OfReader(), "Layout of PATH");
}

using ops::Inspection;
using ops::TensorPlace;

struct Column {
  const char* heading;
  bool right = false;  // numbers are aligned right
  // How a narrow terminal shortens it; a path gives its room before a name does.
  enum Cut { kNever, kName, kPath } cut = kNever;
};

using Row = std::vector<std::string>;

// Narrows the columns that may be cut until all fit `room`.
void FitColumns(const std::vector<Column>& columns, size_t room, std::vector<size_t>& widths) {
  constexpr size_t kGap = 2;
  constexpr size_t kLeast = 12;
  size_t all = kGap * (columns.size() - 1);
  for (const size_t width : widths) all += width;
  for (const Column::Cut cut : {Column::kPath, Column::kName})
    for (size_t c = 0; c < columns.size(); ++c) {
      if (columns[c].cut != cut || all <= room || widths[c] <= kLeast) continue;
      const size_t taken = std::min(all - room, widths[c] - kLeast);
      widths[c] -= taken;
      all -= taken;
    }
}

// `room`: the columns of the terminal; 0: nothing is shortened.
std::string Render(const std::vector<Column>& columns, const std::vector<Row>& rows, size_t room) {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns.size(); ++c) {
    widths.push_back(0);
    for (const Row& row : rows) widths[c] = std::max(widths[c], TextColumns(row[c]));
  }
  if (room > 0) FitColumns(columns, room, widths);
  std::string out;
  for (const Row& row : rows) {
    for (size_t c = 0; c < columns.size(); ++c) {
      const std::string cell = columns[c].cut == Column::kName ? ShortenStart(row[c], widths[c])
                                                               : ShortenMiddle(row[c], widths[c]);
      const std::string pad(widths[c] - TextColumns(cell), ' ');
      if (c > 0) out += "  ";
      if (columns[c].right) out += pad;
      out += cell;
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
    row.push_back(Grouped(count));
}

Json StatisticsJson(const std::optional<ops::TensorStatistics>& statistics) {
  if (!statistics) return {};
  return {{"min", kinds::FiniteOrNull(statistics->min)},
          {"max", kinds::FiniteOrNull(statistics->max)},
          {"mean", kinds::FiniteOrNull(statistics->mean)},
          {"nan", statistics->nan},
          {"inf", statistics->inf},
          {"zeros", statistics->zeros}};
}

// Statistics of the listed tensors, parallel to them; empty when not requested.
using ListedStatistics = std::vector<std::optional<ops::TensorStatistics>>;

// An aligned table of the listed tensors with a heading; "" for none.
std::string TensorTable(const Inspection& inspection, const std::vector<TensorPlace>& listed,
                        const ListedStatistics& statistics) {
  if (listed.empty()) return "";
  const bool ranks = std::ranges::any_of(inspection.artifact.ranks,
                                         [](const LayoutFile& file) { return file.tp_rank >= 0; });
  std::vector<Column> columns = {{.heading = "name", .cut = Column::kName},
                                 {.heading = "dtype"},
                                 {.heading = "shape"},
                                 {.heading = "bytes", .right = true}};
  if (!statistics.empty())
    for (const char* heading : {"min", "max", "mean", "nan", "inf", "zeros"})
      columns.push_back({.heading = heading, .right = true});
  if (ranks) columns.push_back({.heading = "rank"});
  columns.push_back({.heading = "file", .cut = Column::kPath});

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
  return Render(columns, rows, static_cast<size_t>(StdoutColumns()));
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

std::string MoreLine(size_t shown, size_t all) {
  if (shown >= all) return "";
  return fmt::format("... and {} (--filter GLOB, --top N and --json list them)\n",
                     Counted(all - shown, "more tensor"));
}

std::string AnswerText(const Inspection& inspection, const std::vector<TensorPlace>& listed,
                       const ListedStatistics& statistics, size_t selected) {
  std::string text = SummaryText(inspection);
  const std::string table = TensorTable(inspection, listed, statistics);
  if (!table.empty()) text += "\n" + table;
  return text + MoreLine(listed.size(), selected);
}

Json AnswerJson(const Inspection& inspection, const std::vector<TensorPlace>& listed,
                const ListedStatistics& statistics) {
  Json json = SummaryJson(inspection);
  json["tensors"] = TensorsJson(inspection, listed, statistics);
  return json;
}

Result<ToolAnswer> Run(const Args& args, ToolContext& context) {
  ops::InspectRequest request{args.path, HintsOf(args.layout), args.stats, context.poll()};
  if (args.from) request.kind = kinds::KindFromName(*args.from);
  NXDKIT_TRY(CheckPage(args.html, {args.path}, context));
  NXDKIT_TRY(TakeHeld(context, args.path, request.kind, request.hints));
  NXDKIT_ASSIGN(const ops::Inspection inspection, ops::Inspect(request));
  context.Tell(Said{inspection.warnings, inspection.artifact.choices});

  // The order of the files is for programs.
  ops::Selection selection{args.filters, std::nullopt, !context.json()};
  if (args.top) selection.top = static_cast<uint64_t>(*args.top);
  std::vector<ops::TensorPlace> listed = ops::SelectTensors(inspection, selection);
  const size_t selected = listed.size();
  const bool limited = !args.top && args.filters.empty() && !context.json();
  if (limited && selected > kShownTensors) listed.resize(kShownTensors);

  if (args.stats && inspection.tensors == 0 && inspection.neffs.empty() && !inspection.cache)
    return BadUsage("--stats reads the values of tensors, and there are none").in(args.path);
  if (!args.filters.empty() && selected == 0)
    context.Warn(fmt::format(
        "no tensor matches --filter; there are {}. A pattern matches whole names, for instance "
        "'*q_proj*'",
        Grouped(inspection.tensors)));
  ListedStatistics statistics;
  if (args.stats) {
    const Runner runner(context);
    std::vector<const StoredTensor*> tensors;
    for (const ops::TensorPlace place : listed) tensors.push_back(&inspection.tensor(place));
    NXDKIT_ASSIGN(statistics, ops::ComputeStatistics(tensors, runner.options()));
  }
  ToolAnswer answer;
  if (context.json())
    answer.fields = AnswerJson(inspection, listed, statistics);
  else
    answer.text = AnswerText(inspection, listed, statistics, selected);
  if (args.html) NXDKIT_TRY(AddPage(*args.html, InspectPage(inspection), answer));
  return answer;
}

}  // namespace

constinit const Command kCkptInspect = MakeCommand<AddOptions, Run>(kInfo);

}  // namespace nxdkit::tool
