#include "trainer/report/page_samples.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "lib/base/text.h"
#include "lib/page/html.h"
#include "lib/page/numbers.h"
#include "trainer/base/characters.h"

namespace nxdkit::trainer {
namespace {

constexpr size_t kLongestText = 8192;
constexpr size_t kSteps = 10;          // with samples: the first one and the last ones
constexpr size_t kSamplesOfStep = 20;  // of all runs together

// A prompt and its answer in each run; nullptr: none.
struct Answers {
  std::string_view prompt;
  std::vector<const Generation*> samples;
};

using SamplesOfSteps = std::map<int64_t, std::vector<const Generation*>>;

SamplesOfSteps SamplesOf(const RunFiles& run) {
  SamplesOfSteps steps;
  for (const GenerationRecord& record : run.generations)
    steps[record.step].push_back(&record.sample);
  return steps;
}

// Prompts in the order of the first run that has them. A prompt may have several answers in one
// run: the first stands with the other runs' first, and so on.
std::vector<Answers> Matched(const std::vector<SamplesOfSteps>& runs, int64_t step) {
  std::vector<Answers> rows;
  std::map<std::pair<std::string_view, size_t>, size_t> places;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto samples = runs[i].find(step);
    if (samples == runs[i].end()) continue;
    std::map<std::string_view, size_t> seen;
    for (const Generation* sample : samples->second) {
      const std::pair key(std::string_view(sample->prompt), seen[sample->prompt]++);
      const auto [place, is_new] = places.try_emplace(key, rows.size());
      if (is_new) rows.push_back({key.first, std::vector<const Generation*>(runs.size())});
      rows[place->second].samples[i] = sample;
    }
  }
  return rows;
}

struct ChosenSteps {
  std::vector<int64_t> shown;
  size_t all = 0;
  bool common = true;  // all runs have them
};

ChosenSteps ChooseSteps(const std::vector<SamplesOfSteps>& runs) {
  std::map<int64_t, size_t> counts;
  for (const SamplesOfSteps& run : runs)
    for (const auto& [step, samples] : run) ++counts[step];
  ChosenSteps chosen;
  for (const auto& [step, count] : counts)
    if (count == runs.size()) chosen.shown.push_back(step);
  chosen.common = !chosen.shown.empty();
  if (!chosen.common)
    for (const auto& [step, count] : counts) chosen.shown.push_back(step);
  chosen.all = chosen.shown.size();
  if (chosen.all > kSteps)
    chosen.shown.erase(chosen.shown.begin() + 1, chosen.shown.end() - (kSteps - 1));
  return chosen;
}

std::string HeadingOf(const ChosenSteps& steps, size_t runs) {
  const std::string of_runs = runs == 1      ? ""
                              : steps.common ? " that all runs have"
                                             : " of the runs, which have none in common";
  if (steps.all == 1) return "Samples of one step" + of_runs;
  if (steps.all <= kSteps) return fmt::format("Samples of the {} steps{}", steps.all, of_runs);
  return fmt::format("Samples of the first step and the last {} of {} steps{}", kSteps - 1,
                     Grouped(steps.all), of_runs);
}

// A text as it is, cut if it is long.
std::string Shown(std::string_view text) {
  if (text.empty()) return "<i>empty</i>";
  if (text.size() <= kLongestText) return page::Escape(text);
  const size_t end = CharBegin(text, kLongestText);
  return page::Escape(text.substr(0, end)) +
         fmt::format("<i> ... {} more bytes</i>", text.size() - end);
}

// A part that scrolls is reached with the keyboard.
std::string Preformatted(std::string_view text, const char* kind) {
  const bool scrolls = text.size() > 1000 || std::ranges::count(text, '\n') > 15;
  return fmt::format("<pre class=\"{}\"{}>{}</pre>\n", kind, scrolls ? " tabindex=\"0\"" : "",
                     Shown(text));
}

std::string AnswerHtml(const PageRun& run, const Generation* sample) {
  if (sample == nullptr) return "<div><header>" + RunKey(run) + "</header>no sample</div>\n";
  const std::string key = run.label.empty() ? "" : RunKey(run) + "<br>";
  return fmt::format(
      "<div><header>{}score <b>{}</b>, expected <code>{}</code></header>\n{}</div>\n", key,
      ShortNumber(sample->score), Shown(sample->ground_truth),
      Preformatted(sample->output, "answer"));
}

std::string StepHtml(const PageRuns& runs, const std::vector<SamplesOfSteps>& samples, int64_t step,
                     std::string_view which) {
  const std::vector<Answers> rows = Matched(samples, step);
  const size_t count = std::min(rows.size(), std::max<size_t>(1, kSamplesOfStep / runs.size()));
  std::string html = fmt::format("<div class=\"samples{}\">\n", runs.size() == 1 ? " small" : "");
  for (size_t i = 0; i < count; ++i) {
    html += "<article>" + Preformatted(rows[i].prompt, "prompt") + "<div class=\"answers\">\n";
    for (const PageRun& run : runs) html += AnswerHtml(run, rows[i].samples[run.place]);
    html += "</div></article>\n";
  }
  const char* noun = runs.size() == 1 ? "sample" : "prompt";
  return page::Details(
      fmt::format("Step {}{}, {} of {}", step, which, count, Counted(rows.size(), noun)),
      html + "</div>\n", !which.empty());
}

}  // namespace

std::string SampleSection(const PageRuns& runs) {
  std::vector<SamplesOfSteps> samples;
  for (const PageRun& run : runs) samples.push_back(SamplesOf(*run.files));
  const ChosenSteps steps = ChooseSteps(samples);
  if (steps.shown.empty()) return "";
  std::string html = "<h2>" + HeadingOf(steps, runs.size()) + "</h2>\n";
  for (const int64_t step : steps.shown) {
    const bool first = step == steps.shown.front(), last = step == steps.shown.back();
    html += StepHtml(runs, samples, step, last ? " (the last)" : first ? " (the first)" : "");
  }
  return html;
}

}  // namespace nxdkit::trainer
