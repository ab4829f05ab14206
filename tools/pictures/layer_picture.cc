#include "tools/pictures/layer_picture.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "lib/base/text.h"
#include "tools/cli/terminal.h"

namespace nxdkit::tool {
namespace {

using ops::LayerMove;

constexpr size_t kMostRows = 40;
constexpr size_t kMostLabel = 28;
constexpr size_t kNumber = 8;  // "1.87e-04"
constexpr size_t kLeastBar = 5;

struct BarRow {
  std::string label;
  std::optional<double> relative;
};

// "layer 3" where all layers are of one stack, else "visual.blocks 3"; a module by its name.
std::string LabelOf(const LayerMove& first, const LayerMove& last, bool one_stack) {
  constexpr std::string_view kModel = "model.";
  std::string_view name = first.layer ? first.stack() : std::string_view(first.name);
  if (name.starts_with(kModel)) name.remove_prefix(kModel.size());
  if (!first.layer) return EscapeControl(name);
  const bool several = *last.layer != *first.layer;
  std::string label = one_stack ? (several ? "layers" : "layer") : EscapeControl(name);
  label += " " + std::to_string(*first.layer);
  return several ? label + "-" + std::to_string(*last.layer) : label;
}

// Neighbours in one stack, `size` to a row; modules have rows of their own.
std::vector<BarRow> RowsOf(const std::vector<LayerMove>& layers, size_t size) {
  bool one_stack = true;
  std::string_view stack;
  for (const LayerMove& move : layers) {
    if (!move.layer) continue;
    one_stack &= stack.empty() || stack == move.stack();
    stack = move.stack();
  }
  std::vector<BarRow> rows;
  for (size_t i = 0; i < layers.size();) {
    LayerMove sum;
    size_t end = i;
    do sum.Add(layers[end++]);
    while (end < layers.size() && end - i < size && layers[i].layer && layers[end].layer &&
           layers[end].stack() == layers[i].stack());
    rows.push_back({LabelOf(layers[i], layers[end - 1], one_stack), sum.relative()});
    i = end;
  }
  return rows;
}

// At most about 60 rows: the modules after the first twenty are one.
std::vector<BarRow> Fit(const std::vector<LayerMove>& layers) {
  constexpr size_t kMostModules = 20;
  std::vector<LayerMove> shown;
  LayerMove others;
  size_t modules = 0, in_stacks = 0;
  for (const LayerMove& move : layers) {
    if (move.layer)
      ++in_stacks;
    else if (++modules > kMostModules) {
      others.Add(move);
      continue;
    }
    shown.push_back(move);
  }
  std::vector<BarRow> rows = RowsOf(shown, (in_stacks + kMostRows - 1) / kMostRows);
  if (modules > kMostModules)
    rows.push_back({Counted(modules - kMostModules, "other module"), others.relative()});
  return rows;
}

std::string Bar(double share, size_t columns, bool utf8) {
  if (!(share > 0)) return "";
  const double length = share * static_cast<double>(columns);
  std::string bar;
  if (!utf8) return bar.append(std::max<size_t>(1, static_cast<size_t>(std::lround(length))), '#');
  constexpr std::string_view kFull = "\u2588";
  constexpr std::string_view kEighths[] = {"",       "\u258f", "\u258e", "\u258d",
                                           "\u258c", "\u258b", "\u258a", "\u2589"};
  const auto eighths = std::max<size_t>(1, static_cast<size_t>(std::lround(length * 8)));
  for (size_t i = 0; i < eighths / 8; ++i) bar += kFull;
  bar += kEighths[eighths % 8];
  return bar;
}

}  // namespace

PictureOptions PictureHere() {
  PictureOptions options;
  const auto columns = static_cast<size_t>(StdoutColumns());
  if (columns > 0) options.columns = std::min(options.columns, columns);
  options.utf8 = LocaleIsUtf8();
  return options;
}

std::string LayersText(const std::vector<LayerMove>& layers, const PictureOptions& options) {
  std::vector<BarRow> rows = Fit(layers);
  if (rows.size() < 2) return "";
  size_t label = 0;
  double most = 0;
  const size_t widest =
      std::min(kMostLabel, std::max<size_t>(options.columns, 30) - kNumber - kLeastBar - 4);
  for (BarRow& row : rows) {
    row.label = ShortenMiddle(row.label, widest);
    label = std::max(label, TextColumns(row.label));
    if (row.relative && std::isfinite(*row.relative)) most = std::max(most, *row.relative);
  }
  const size_t used = label + kNumber + 4;
  const size_t room = std::max(options.columns, used + kLeastBar) - used;
  std::string text = fmt::format("{:{}}  {:>{}}\n", "layer", label, "update", kNumber);
  for (const BarRow& row : rows) {
    const std::string number = !row.relative        ? "-"
                               : *row.relative == 0 ? "0"
                                                    : fmt::format("{:.3g}", *row.relative);
    const bool drawn = row.relative && most > 0 && std::isfinite(*row.relative);
    const std::string bar = drawn ? Bar(*row.relative / most, room, options.utf8) : "";
    text += row.label + std::string(label - TextColumns(row.label), ' ') +
            fmt::format("  {:>{}}", number, kNumber) + (bar.empty() ? "" : "  " + bar) + "\n";
  }
  return text;
}

}  // namespace nxdkit::tool
