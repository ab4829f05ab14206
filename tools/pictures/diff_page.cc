#include "tools/pictures/diff_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>

#include "formats/kinds/kind.h"
#include "lib/base/text.h"
#include "lib/page/html.h"
#include "lib/page/page.h"
#include "tools/pictures/heat_data.h"
#include "tools/pictures/page_names.h"

namespace nxdkit::tool {
namespace {

using artifact::Finding;
using ops::DiffReport;
using ops::ParamDiff;

// --- the versions

// Paths or their parts, each with "..." in its middle if it is long, but not so short that two
// different ones become the same.
std::vector<std::string> ShortenApart(std::vector<std::string> texts) {
  size_t longest = 0;
  for (std::string& text : texts) {
    text = EscapeControl(text);
    longest = std::max(longest, text.size());
  }
  const size_t different = std::set(texts.begin(), texts.end()).size();
  for (size_t columns = 48; columns < longest; columns *= 2) {
    std::vector<std::string> shortened;
    for (const std::string& text : texts) shortened.push_back(ShortenMiddle(text, columns));
    if (std::set(shortened.begin(), shortened.end()).size() == different) return shortened;
  }
  return texts;
}

// How many parts the first of these have in common with all others, up to `most`.
template <typename Part>
size_t CommonParts(const std::vector<std::vector<std::string_view>>& paths, size_t most,
                   const Part& part) {
  for (size_t i = 0; i < most; ++i)
    for (const std::vector<std::string_view>& path : paths)
      if (part(path, i) != part(paths.front(), i)) return i;
  return most;
}

// The paths less the folders that all of them begin and end with: "step_50", "lr_3/actor".
std::vector<std::string> LabelsOf(const std::vector<std::string>& paths) {
  using Parts = std::vector<std::string_view>;
  std::vector<Parts> all;
  size_t fewest = SIZE_MAX;
  for (const std::string_view path : paths) {
    all.push_back(Split(path.substr(0, path.find_last_not_of('/') + 1), '/'));
    fewest = std::min(fewest, all.back().size());
  }
  const size_t before =
      CommonParts(all, fewest - 1, [](const Parts& parts, size_t i) { return parts[i]; });
  const size_t after = CommonParts(all, fewest - 1 - before, [](const Parts& parts, size_t i) {
    return parts[parts.size() - 1 - i];
  });
  std::vector<std::string> labels;
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::span<const std::string_view> parts(all[i]);
    const std::string label =
        fmt::format("{}", fmt::join(parts.subspan(before, parts.size() - before - after), "/"));
    labels.push_back(label.empty() ? paths[i] : label);
  }
  return ShortenApart(std::move(labels));
}

// The whole way, and each step.
std::vector<std::string> StepLabels(const std::vector<std::string>& versions) {
  std::vector<std::string> labels = {versions.front() + " \u2192 " + versions.back()};
  for (size_t i = 0; versions.size() > 2 && i + 1 < versions.size(); ++i)
    labels.push_back(versions[i] + " \u2192 " + versions[i + 1]);
  return labels;
}

// --- the results at the top

std::string RelativeText(const DiffReport& report) {
  const std::optional<double> relative = report.update.relative();
  return report.update.parameters > 0 && relative && std::isfinite(*relative)
             ? fmt::format("{:.3g}", *relative)
             : "-";
}

// The weight that moved most.
std::string WorstText(const DiffReport& report) {
  if (report.update.parameters == 0) return "nothing to compare";
  const ParamDiff* worst = nullptr;
  double most = 0;
  for (const ParamDiff& param : report.params) {
    const double distance = Distance(param);
    if (param.is_state) continue;
    if (distance > most || (worst && distance == most && param.name < worst->name)) {
      worst = &param;
      most = distance;
    }
  }
  return worst ? ShortenMiddle(ShownName(worst->name), 64) : "none moved";
}

uint64_t BrokenPairs(const DiffReport& report) { return report.total.nan + report.total.infinite; }

std::string CardsHtml(const std::vector<std::string>& versions, const ops::VersionsReport& report) {
  const DiffReport& whole = report.whole;
  std::vector<page::Card> cards = {{fmt::format("A ({})", whole.a_kind->name), versions.front()},
                                   {fmt::format("B ({})", whole.b_kind->name), versions.back()}};
  if (!report.steps.empty()) cards.push_back({"steps", Grouped(report.steps.size())});
  cards.push_back({"parameters compared", Grouped(whole.params.size())});
  cards.push_back({"elements changed", fmt::format("{} of {}", Grouped(whole.total.changed),
                                                   Grouped(whole.total.elements))});
  if (BrokenPairs(whole) > 0) cards.push_back({"NaN or infinite", Grouped(BrokenPairs(whole))});
  cards.push_back({"update: ||B - A|| / ||A||", RelativeText(whole)});
  cards.push_back({"moved most", WorstText(whole)});
  return page::Cards(cards);
}

std::string PathsHtml(const std::vector<std::string>& paths) {
  return page::Table({}, {{"A", page::NameHtml(ShownName(paths.front()))},
                          {"B", page::NameHtml(ShownName(paths.back()))}});
}

// Remarks that the numbers need.
std::string NotesHtml(const ops::VersionsReport& report) {
  // Also where no pair counts as broken: values that are NaN or infinite in both files do not.
  std::string html =
      "<p class=\"soft\">Norms and means leave out values that are NaN or infinite.</p>\n";
  if (std::ranges::any_of(report.whole.params, &ParamDiff::is_state))
    html +=
        "<p class=\"soft\">The update, \"moved most\" and the heat map are of the weights alone; "
        "the counts and the table include the optimizer's state.</p>\n";
  return html;
}

// --- the findings

// Those of the whole way, then those of steps that the whole way does not have.
std::vector<std::string> FindingsOf(const std::vector<std::string>& labels,
                                    const ops::VersionsReport& report) {
  constexpr size_t kMostColumns = 240;
  using Key = std::tuple<std::string_view, std::string_view, std::string_view>;
  const auto key = [](const Finding& finding) {
    return Key(finding.check, finding.param, finding.message);
  };
  const auto text = [](const Finding& finding) {
    return ShortenMiddle(ShownName(finding.param) + ": " + ShownName(finding.message),
                         kMostColumns);
  };
  std::vector<std::string> out;
  std::set<Key> of_whole;
  for (const Finding& finding : report.whole.findings) {
    of_whole.insert(key(finding));
    out.push_back(text(finding));
  }
  for (size_t i = 0; i < report.steps.size(); ++i)
    for (const Finding& finding : report.steps[i].findings)
      if (!of_whole.contains(key(finding))) out.push_back(labels[i + 1] + ": " + text(finding));
  return out;
}

std::string FindingsHtml(std::vector<std::string> findings) {
  constexpr size_t kOpen = 5, kMost = 300;
  if (findings.size() <= kOpen) return page::Problems(findings);
  const size_t closed = findings.size() - kOpen;
  if (findings.size() > kMost) {
    const size_t left = findings.size() - kMost;
    findings.resize(kMost);
    findings.push_back(fmt::format("... and {} more, which ckpt-diff --json has", Grouped(left)));
  }
  const auto rest = findings.begin() + kOpen;
  return page::Problems({findings.begin(), rest}) +
         page::Details(Counted(closed, "more finding"), page::Problems({rest, findings.end()}));
}

}  // namespace

std::string DiffPage(const std::vector<std::string>& paths, const ops::VersionsReport& report,
                     size_t most_bytes) {
  const std::vector<std::string> versions = LabelsOf(paths);
  const std::vector<std::string> labels = StepLabels(versions);
  page::Page page("ckpt-diff: " + labels.front());
  page.Add(CardsHtml(versions, report));
  page.Add(PathsHtml(paths));
  const bool compares =
      !report.whole.params.empty() || std::ranges::any_of(report.steps, [](const DiffReport& step) {
        return !step.layers.empty();
      });
  if (compares) page.Add(NotesHtml(report));
  page.Add(FindingsHtml(FindingsOf(labels, report)));
  if (!compares) return page.Text();
  page.Use(page::Script::kHeat);
  const size_t used = page.Text().size();
  const HeatData data = MakeHeatData(labels, report, most_bytes - std::min(most_bytes, used));
  if (!data.left_out.empty())
    page.Add(
        fmt::format("<p id=\"heat-left-out\">To stay small, this page leaves out {}. "
                    "ckpt-diff --json has all.</p>\n",
                    page::Escape(fmt::format("{}", fmt::join(data.left_out, ", ")))));
  page.Heading("Heat map");
  page.Add(
      "<p class=\"soft\">The colour of a cell is the norm of its update divided by the norm of its "
      "weights, ||B - A|| / ||A||, on a log scale. Arrow keys move between cells; Enter shows the "
      "cell's parameters in the table.</p>\n<div id=\"heat-steps\"></div>\n"
      "<div id=\"heat-map\"></div>\n"
      "<noscript><p>The map needs this page's own script.</p></noscript>\n");
  page.Heading("Parameters");
  page.Add("<div id=\"heat-table\"></div>\n");
  page.AddData("heat", data.json);
  return page.Text();
}

}  // namespace nxdkit::tool
