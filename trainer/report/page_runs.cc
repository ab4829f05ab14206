#include "trainer/report/page_runs.h"

#include <set>

#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/page/html.h"
#include "lib/page/legend.h"
#include "lib/system/paths.h"

namespace nxdkit::trainer {
namespace {

bool AllDiffer(const std::vector<std::string>& labels) {
  const std::set<std::string_view> different(labels.begin(), labels.end());
  return different.size() == labels.size() && !different.contains("");
}

// Labels short enough for headings and legends, still different.
std::vector<std::string> Shortened(const std::vector<std::string>& labels) {
  constexpr size_t kLongestLabel = 40;
  std::vector<std::string> shortened;
  for (const std::string& label : labels) shortened.push_back(ShortenMiddle(label, kLongestLabel));
  if (AllDiffer(shortened)) return shortened;
  for (size_t i = 0; i < labels.size(); ++i)
    shortened[i] = ShortenMiddle(labels[i], kLongestLabel - 4) + " (" + std::to_string(i + 1) + ")";
  return shortened;
}

// The shortest of some names that tells the runs apart.
std::vector<std::string> LabelsOf(const std::vector<ReportedRun>& runs) {
  std::vector<std::string> experiments, names, bases, folders;
  for (const ReportedRun& run : runs) {
    experiments.push_back(ConfigText(run.files, "trainer.experiment_name"));
    names.push_back(NameOf(run.files));
    bases.push_back(BaseName(run.files.folder));
    folders.push_back(run.files.folder);
  }
  for (const auto* labels : {&experiments, &names, &bases, &folders})
    if (AllDiffer(*labels)) return Shortened(*labels);
  return Shortened(folders);
}

}  // namespace

PageRuns PageRunsOf(const std::vector<ReportedRun>& reported) {
  PageRuns runs;
  const std::vector<std::string> labels = LabelsOf(reported);
  for (size_t i = 0; i < reported.size(); ++i)
    runs.push_back({.files = &reported[i].files,
                    .bill = &reported[i].bill,
                    .place = i,
                    .label = reported.size() > 1 ? labels[i] : ""});
  return runs;
}

std::string NameOf(const RunFiles& run) {
  const std::string project = ConfigText(run, "trainer.project_name");
  const std::string experiment = ConfigText(run, "trainer.experiment_name");
  if (project.empty() && experiment.empty()) return BaseName(run.folder);
  return project + " / " + experiment;
}

std::string ConfigText(const RunFiles& run, std::string_view path) {
  for (const auto& [key, value] : run.config) {
    if (key != path) continue;
    const Result<Json> json = ParseJson(value, kLikePython);
    return json.ok() && json->is_string() ? json->get<std::string>() : value;
  }
  return "";
}

const std::vector<Point>* FindSeries(const RunFiles& run, const std::string& name) {
  const auto found = run.metrics.by_name.find(name);
  const bool there = found != run.metrics.by_name.end();
  return there && page::Summarize(found->second).count > 0 ? &found->second : nullptr;
}

std::vector<std::string> MetricsOf(const PageRuns& runs, std::span<const std::string_view> names) {
  std::vector<std::string> metrics;
  for (const std::string_view pattern : names) {
    std::set<std::string> found;
    for (const PageRun& run : runs)
      for (const auto& [name, points] : run.files->metrics.by_name)
        if (GlobMatch(pattern, name) && FindSeries(*run.files, name)) found.insert(name);
    metrics.insert(metrics.end(), found.begin(), found.end());
  }
  return metrics;
}

std::string RunKey(const PageRun& run) {
  if (run.label.empty()) return "";
  return page::LineKey({.name = run.label, .color = run.place, .dash = run.place}) +
         page::Escape(run.label);
}

std::string WithRun(std::string_view text, const PageRun& run) {
  return std::string(text) + (run.label.empty() ? "" : " of " + run.label);
}

std::string RunTable(const PageRuns& runs, const std::vector<PageRow>& rows) {
  if (rows.empty()) return "";
  std::vector<std::string> headings;
  if (runs.size() > 1) {
    headings.push_back("");
    for (const PageRun& run : runs) headings.push_back(RunKey(run));
  }
  std::vector<std::vector<std::string>> html_rows;
  for (const PageRow& row : rows) {
    html_rows.push_back({page::NameHtml(row.name)});
    html_rows.back().insert(html_rows.back().end(), row.cells.begin(), row.cells.end());
  }
  const std::string html = page::TableOf(headings, html_rows);
  if (runs.size() == 1) return html;
  // More than two may have to be scrolled, also with keys.
  const std::string keys = runs.size() > 2 ? " tabindex=\"0\"" : "";
  return "<div class=\"scroll runs\"" + keys + ">\n" + html + "</div>\n";
}

}  // namespace nxdkit::trainer
