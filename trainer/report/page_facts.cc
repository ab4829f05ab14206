#include "trainer/report/page_facts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "lib/base/duration.h"
#include "lib/base/text.h"
#include "lib/page/html.h"
#include "lib/page/numbers.h"
#include "trainer/report/bill_text.h"
#include "trainer/report/console.h"
#include "trainer/report/run_log.h"

namespace nxdkit::trainer {
namespace {

// "2026-11-21 12:05:09 UTC"
std::string DateText(const std::optional<int64_t>& seconds) {
  if (!seconds) return "";
  std::string text = TimeText(*seconds);
  std::ranges::replace(text, 'T', ' ');
  text.pop_back();
  return text + " UTC";
}

std::string FolderOf(const RunFiles& run) { return run.folder; }

std::string HostText(const RunFiles& run) {
  if (run.host.empty()) return "";
  const std::string nodes = ConfigText(run, "trainer.nnodes");
  const bool several = ParseNumber<int64_t>(nodes).value_or(1) > 1;
  return run.host + (several ? fmt::format(", the first of {} nodes", nodes) : "");
}

// "" without a trace of a start: other programs write the same logs.
std::string StateText(const RunFiles& run) {
  const int64_t attempts = run.clock.attempts;
  const bool started = attempts > 0 || !run.host.empty();
  const std::string count = attempts > 0 ? ", " + Counted(attempts, "attempt") : "";
  if (run.end) return fmt::format("finished at step {}{}", *run.end, count);
  return started ? "not finished" + count : "";
}

struct Fact {
  const char* name;
  std::string (*of)(const RunFiles& run);  // "": not recorded
};

constexpr Fact kFacts[] = {
    {"run", NameOf},
    {"folder", FolderOf},
    {"model", [](const RunFiles& run) { return ConfigText(run, "worker.actor.model.model_path"); }},
    {"host", HostText},
    {"state", StateText},
    {"nxdkit", [](const RunFiles& run) { return run.clock.version; }},
    {"started", [](const RunFiles& run) { return DateText(run.clock.first); }},
    {"last line of the log", [](const RunFiles& run) { return DateText(run.clock.last); }},
};

// An important number of a run.
struct Amount {
  double value = 0;
  std::string (*text)(double value) = ShortNumber;
};

struct AmountRow {
  const char* label;
  std::optional<Amount> (*of)(const RunFiles& run);
};

std::optional<Amount> LastStepOf(const RunFiles& run) {
  if (run.metrics.by_name.empty()) return std::nullopt;
  int64_t last = 0;
  for (const auto& [name, points] : run.metrics.by_name) last = std::max(last, points.back().step);
  return Amount{static_cast<double>(last), [](double step) { return fmt::format("{:.0f}", step); }};
}

std::optional<Amount> LastOf(const RunFiles& run, const char* name) {
  const auto found = run.metrics.by_name.find(name);
  if (found == run.metrics.by_name.end()) return std::nullopt;
  return Amount{page::Summarize(found->second).last};
}

std::optional<Amount> BestValidationOf(const RunFiles& run) {
  const std::vector<Point>* points = FindSeries(run, "val/reward_score");
  if (points == nullptr) return LastOf(run, "val/reward_score");
  return Amount{page::Summarize(*points).high};
}

std::optional<Amount> TotalOf(const RunFiles& run, const char* name, std::string (*text)(double)) {
  double total = 0;
  if (const std::vector<Point>* points = FindSeries(run, name))
    for (const Point& point : *points)
      if (std::isfinite(point.value)) total += point.value;
  return total > 0 ? std::optional(Amount{total, text}) : std::nullopt;
}

constexpr AmountRow kAmounts[] = {
    {"last step", LastStepOf},
    {"reward", [](const RunFiles& run) { return LastOf(run, "reward/overall"); }},
    {"accuracy", [](const RunFiles& run) { return LastOf(run, "reward/accuracy"); }},
    {"best validation", BestValidationOf},
    {"response length", [](const RunFiles& run) { return LastOf(run, "response_length/mean"); }},
    {"training time",
     [](const RunFiles& run) { return TotalOf(run, "perf/time_per_step", ClockText); }},
    {"tokens",
     [](const RunFiles& run) { return TotalOf(run, "perf/total_num_tokens", CountText); }},
};

// "0.8500 (+0.0500)"; a difference that reads as nothing is left out.
std::string CellOf(const std::optional<Amount>& amount, const std::optional<Amount>& first) {
  if (!amount) return "-";
  const std::string text = page::Escape(amount->text(amount->value));
  if (!first) return text;
  const double more = amount->value - first->value;
  const double rounding = 1e-9 * std::max(std::abs(amount->value), std::abs(first->value));
  if (!std::isfinite(more) || std::abs(more) <= rounding) return text;
  const std::string difference = amount->text(std::abs(more));
  if (difference == amount->text(0)) return text;
  return fmt::format("{} <small>({}{})</small>", text, more < 0 ? "-" : "+",
                     page::Escape(difference));
}

}  // namespace

std::string TitleOf(const PageRuns& runs) {
  if (runs.size() == 1) return NameOf(*runs[0].files);
  std::string title;
  for (const PageRun& run : runs)
    title += (run.place == 0 ? "" : run.place + 1 == runs.size() ? " and " : ", ") + run.label;
  return title;
}

std::string ProblemList(const PageRuns& runs) {
  std::vector<std::string> problems;
  for (const PageRun& run : runs)
    for (const std::string& problem : run.files->problems)
      problems.push_back((run.label.empty() ? "" : run.label + ": ") + problem);
  return page::Problems(problems);
}

std::string FactTable(const PageRuns& runs) {
  std::vector<PageRow> rows;
  for (const Fact& fact : kFacts) {
    if (runs.size() == 1 && (fact.of == NameOf || fact.of == FolderOf)) continue;  // the title
    PageRow row{.name = fact.name, .cells = {}};
    bool any = false;
    for (const PageRun& run : runs) {
      const std::string text = fact.of(*run.files);
      any |= !text.empty();
      row.cells.push_back(text.empty() ? "-" : page::Escape(ShortName(text)));
    }
    if (any) rows.push_back(std::move(row));
  }
  return RunTable(runs, rows);
}

std::string CardSection(const PageRuns& runs) {
  std::vector<page::Card> cards;
  std::vector<PageRow> rows;
  for (const AmountRow& kind : kAmounts) {
    const std::optional<Amount> first = kind.of(*runs[0].files);
    if (first) cards.push_back({kind.label, first->text(first->value)});
    PageRow row{.name = kind.label, .cells = {}};
    bool any = false;
    for (const PageRun& run : runs) {
      const std::optional<Amount> amount = kind.of(*run.files);
      any |= amount.has_value();
      row.cells.push_back(CellOf(amount, run.place == 0 ? std::nullopt : first));
    }
    if (any) rows.push_back(std::move(row));
  }
  if (runs.size() == 1) return page::Cards(cards);
  if (rows.empty()) return "";
  const std::string table = RunTable(runs, rows);
  const bool differ = table.find("<small>") != table.npos;
  return "<h2>Results</h2>\n" + table +
         (differ ? "<p class=\"soft\">In brackets: the difference from the first run.</p>\n" : "");
}

std::string CostTable(const PageRuns& runs) {
  std::vector<PageRow> rows;
  for (const PageRun& run : runs)
    for (const auto& [name, text] : BillRows(*run.bill)) {
      auto row = std::ranges::find(rows, name, &PageRow::name);
      if (row == rows.end())
        row = rows.insert(row, {name, std::vector<std::string>(runs.size(), "-")});
      row->cells[run.place] = page::Escape(text);
    }
  const std::string table = RunTable(runs, rows);
  return table.empty() ? "" : "<h2>Cost</h2>\n" + table;
}

}  // namespace nxdkit::trainer
