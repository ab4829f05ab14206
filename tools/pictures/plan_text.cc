#include "tools/pictures/plan_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "lib/base/text.h"

namespace nxdkit::tool {
namespace {

using artifact::Slice;
using artifact::TensorSlices;

constexpr size_t kMostParts = 64;
constexpr size_t kWidestLabel = 36;
constexpr size_t kShortestBar = 8;

struct Span {
  double from = 0;  // shares of the whole
  double to = 0;
};

struct PartRow {
  std::vector<std::string> labels;
  Span bar;
  std::string numbers;
};

std::string SpanText(const Span& bar, size_t columns, bool utf8) {
  if (bar.to <= bar.from) return std::string(columns, ' ');  // nothing of a parameter
  const auto wide = static_cast<double>(columns);
  const auto first = std::min(static_cast<size_t>(bar.from * wide), columns - 1);
  const size_t end = std::clamp(static_cast<size_t>(bar.to * wide + 0.5), first + 1, columns);
  std::string text;
  for (size_t i = 0; i < columns; ++i) {
    const bool on = i >= first && i < end;
    text += utf8 ? (on ? "\u2588" : "\u2591") : (on ? "#" : ".");
  }
  return text;
}

// Labels on the left, then bars of one length, then numbers; it fits the columns as far as they go.
std::string Render(std::vector<PartRow> rows, const PictureOptions& options) {
  if (rows.empty()) return "";
  std::vector<size_t> widths(rows[0].labels.size());
  size_t numbers = 0;
  const size_t most = std::clamp(options.columns / 3, size_t{12}, kWidestLabel);
  for (PartRow& row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) {
      row.labels[i] = ShortenMiddle(row.labels[i], most);
      widths[i] = std::max(widths[i], TextColumns(row.labels[i]));
    }
    numbers = std::max(numbers, TextColumns(row.numbers));
  }
  const std::string arrow = options.utf8 ? " \u2192 " : " -> ";
  size_t used = 2 + numbers + 4;
  for (const size_t width : widths) used += width + TextColumns(arrow);
  const size_t bar = std::max(options.columns, used + kShortestBar) - used;
  std::string text;
  for (const PartRow& row : rows) {
    text += "  ";
    for (size_t i = 0; i < widths.size(); ++i)
      text += (i > 0 ? arrow : "") + row.labels[i] +
              std::string(widths[i] - TextColumns(row.labels[i]), ' ');
    text += "  " + SpanText(row.bar, std::min<size_t>(bar, 40), options.utf8) + "  " + row.numbers +
            "\n";
  }
  return text;
}

std::string MoreText(size_t all) {
  if (all <= kMostParts) return "";
  return fmt::format("  ... and {} more (--json lists them, --html draws them)\n",
                     Grouped(all - kMostParts));
}

std::string EndLabel(const ops::PlanEnd& end) { return EscapeControl(end.label); }

// The part of a bar that a slice takes: each axis divides the share of the one before.
Span SpanOf(const TensorSlices& tensor, const Slice& slice) {
  const Shape& shape = tensor.params[slice.param].shape;
  double from = 0, size = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto all = static_cast<double>(std::max<int64_t>(shape[d], 1));
    from += size * static_cast<double>(slice.logical.lo[d]) / all;
    size *= static_cast<double>(slice.logical.extent[d]) / all;
  }
  return {from, from + size};
}

// How many characters the names of all parameters share, up to a dot.
size_t SharedPrefix(const std::vector<LogicalTensor>& params) {
  std::string_view shared = params[0].name;
  for (const LogicalTensor& param : params) {
    const auto differ = std::ranges::mismatch(shared, param.name).in1;
    shared = shared.substr(0, static_cast<size_t>(differ - shared.begin()));
  }
  return shared.rfind('.') + 1;  // 0 without a dot
}

std::string PartText(const TensorSlices& tensor, const Slice& slice) {
  const LogicalTensor& param = tensor.params[slice.param];
  std::string text;
  if (tensor.params.size() > 1)
    text = EscapeControl(param.name.substr(SharedPrefix(tensor.params))) + " ";
  text += BoxText(slice.logical);
  if (const auto heads = artifact::HeadsIn(param, slice.logical))
    text += heads->first == heads->second
                ? fmt::format(" head {}", heads->first)
                : fmt::format(" heads {} to {}", heads->first, heads->second);
  return text;
}

std::string FillText(const artifact::SliceFill& fill) {
  const std::string what =
      fill.is_padding ? "zeros as padding" : fmt::format("{}, the rank", fill.value);
  return fmt::format("{} {}", BoxText(fill.target), what);
}

std::string TensorText(const ops::Explanation& plan, const TensorSlices& tensor,
                       const PictureOptions& options) {
  std::vector<PartRow> rows;
  for (const Slice& slice : tensor.slices) {
    if (rows.size() == kMostParts) break;
    PartRow row{{}, SpanOf(tensor, slice), PartText(tensor, slice)};
    if (plan.sources.size() > 1)
      row.labels.push_back(EndLabel(plan.sources[tensor.sources[slice.from].file]));
    row.labels.push_back(EndLabel(plan.targets[tensor.targets[slice.to].file]));
    rows.push_back(std::move(row));
  }
  for (const artifact::SliceFill& fill : tensor.fills) {
    if (rows.size() == kMostParts) break;
    PartRow row{{}, {}, FillText(fill)};
    if (plan.sources.size() > 1) row.labels.push_back("-");
    row.labels.push_back(EndLabel(plan.targets[tensor.targets[fill.to].file]));
    rows.push_back(std::move(row));
  }
  return EscapeControl(tensor.name) + "\n" + Render(std::move(rows), options) +
         MoreText(tensor.slices.size() + tensor.fills.size());
}

}  // namespace

std::string FlowsText(const ops::Explanation& plan, const PictureOptions& options) {
  uint64_t most = 1;
  for (const ops::PlanFlow& flow : plan.flows) most = std::max(most, flow.bytes);
  std::vector<PartRow> rows;
  for (const ops::PlanFlow& flow : plan.flows) {
    if (rows.size() == kMostParts) break;
    const bool same = !rows.empty() && flow.from == (&flow)[-1].from;
    rows.push_back(
        {{same ? "" : EndLabel(plan.sources[flow.from]), EndLabel(plan.targets[flow.to])},
         {0, static_cast<double>(flow.bytes) / static_cast<double>(most)},
         HumanBytes(flow.bytes)});
  }
  return fmt::format("{} from {} to {}; --explain TENSOR shows the parts of one\n",
                     Counted(plan.tensors.size(), "tensor"), Counted(plan.sources.size(), "file"),
                     Counted(plan.targets.size(), "file")) +
         Render(std::move(rows), options) + MoreText(plan.flows.size());
}

std::string SlicesText(const ops::Explanation& plan, const PictureOptions& options) {
  std::string text;
  for (const TensorSlices& tensor : plan.tensors) text += TensorText(plan, tensor, options) + "\n";
  return text;
}

}  // namespace nxdkit::tool
