#include "trainer/report/run_files.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/errors.h"
#include "lib/json/json.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/lines.h"
#include "trainer/base/characters.h"
#include "trainer/report/run_log.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxLineBytes = uint64_t{64} << 20;  // in a log to continue
constexpr JsonOptions kLineOptions = {
    .allow_nan = true, .allow_duplicate_keys = true, .max_depth = 16};

std::optional<Json> ParseLine(std::string_view line) {
  Result<Json> json = ParseJson(line, kLineOptions);
  if (!json.ok() || !json->is_object()) return std::nullopt;
  return std::move(json).value();
}

std::optional<int64_t> StepOf(const Json& record) {
  const Json* step = JsonFind(record, "step");
  if (step == nullptr || !step->is_number_integer()) return std::nullopt;
  if (step->is_number_unsigned() && step->get<uint64_t>() > INT64_MAX) return std::nullopt;
  return step->get<int64_t>();
}

// Calls each(step, record) for the lines of a log, and returns the number of damaged ones:
// including a last line without a line feed, which was being written.
template <typename Each>
int64_t ForEachRecord(std::string_view text, const Each& each) {
  std::vector<std::string_view> lines = Split(text, '\n');
  int64_t damaged = lines.back().empty() ? 0 : 1;
  lines.pop_back();
  for (const std::string_view line : lines) {
    const std::optional<Json> record = ParseLine(line);
    const std::optional<int64_t> step = record ? StepOf(*record) : std::nullopt;
    if (step)
      each(*step, *record);
    else
      ++damaged;
  }
  return damaged;
}

// Sorts by step; among several values of one step the last one written stays.
void Arrange(std::vector<Point>& points) {
  std::ranges::stable_sort(points, {}, &Point::step);
  size_t kept = 0;
  for (const Point& point : points) {
    if (kept > 0 && points[kept - 1].step == point.step) --kept;
    points[kept++] = point;
  }
  points.resize(kept);
}

// `depth` is bounded by the parser.
void AddNumbers(const Json& value, const std::string& name, int64_t step, MetricSeries& series) {
  if (value.is_number()) {
    series.by_name[name].push_back({step, value.get<double>()});
    return;
  }
  if (!value.is_object()) return;
  for (const auto& [key, member] : value.items()) {
    const std::string inner = key.starts_with('/') ? key.substr(1) : key;
    AddNumbers(member, name.empty() ? inner : name + "/" + inner, step, series);
  }
}

std::string StringOf(const Json& record, std::string_view key) {
  const Json* value = JsonFind(record, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

void AddLeaves(const Json& value, const std::string& path, RunFiles& run) {
  if (!value.is_object() || value.empty()) {
    run.config.emplace_back(path, value.dump(-1, ' ', false, Json::error_handler_t::replace));
    return;
  }
  for (const auto& [key, member] : value.items())
    AddLeaves(member, path.empty() ? key : path + "." + key, run);
}

// nullopt: missing or unreadable, which is a problem of the run.
std::optional<std::string> TextOf(const std::string& folder, std::string_view name, RunFiles& run) {
  const std::string path = JoinPath(folder, name);
  const Result<bool> there = IsThere(path);
  if (there.ok() && !*there) {
    run.problems.push_back(fmt::format("{} is missing", name));
    return std::nullopt;
  }
  Result<std::string> text = there.ok() ? ReadSmallFile(path, kMaxBytes) : there.error();
  if (text.ok()) return std::move(text).value();
  run.problems.push_back(fmt::format("{}: {}", name, text.error().message()));
  return std::nullopt;
}

void CountDamage(RunFiles& run, std::string_view name, int64_t damaged) {
  if (damaged > 0)
    run.problems.push_back(fmt::format("{}: {} skipped", name, Counted(damaged, "damaged line")));
}

void ReadConfig(RunFiles& run) {
  const std::optional<std::string> text = TextOf(run.folder, kConfigFile, run);
  if (!text) return;
  const Result<Json> json = ParseJson(*text, kLineOptions);
  if (json.ok())
    AddLeaves(*json, "", run);
  else if (text->empty())
    run.problems.push_back(fmt::format("{} is empty", kConfigFile));
  else
    run.problems.push_back(fmt::format("{}: {}", kConfigFile, json.error().message()));
}

// The step in DONE (trainer/loop/attempt.h).
std::optional<int64_t> EndOf(const std::string& folder) {
  constexpr uint64_t kMostBytes = 64 << 10;
  const Result<Json> done = ReadJsonFile(JoinPath(folder, "DONE"), kMostBytes);
  return done.ok() ? StepOf(*done) : std::nullopt;
}

void ReadMetrics(RunFiles& run) {
  const std::optional<std::string> text = TextOf(run.folder, kMetricsFile, run);
  if (!text) return;
  run.metrics = ParseMetrics(*text);
  CountDamage(run, kMetricsFile, run.metrics.damaged);
  if (!run.end) return;
  if (run.metrics.records == 0)
    run.problems.push_back(
        fmt::format("{} holds no step, but the run ended at step {}", kMetricsFile, *run.end));
  else if (run.metrics.last_step < *run.end)
    run.problems.push_back(fmt::format("{} ends at step {}, but the run ended at step {}",
                                       kMetricsFile, run.metrics.last_step, *run.end));
}

// The machine of the last start, from the newest file in attempts/ (trainer/loop/attempt.h). Runs
// without one are whole: earlier versions wrote none.
std::string HostOf(const std::string& folder) {
  constexpr uint64_t kMostBytes = 64 << 10;
  const std::string attempts = JoinPath(folder, "attempts");
  const Result<std::vector<std::string>> names = ListFolder(attempts);
  int64_t last = 0;
  if (names.ok())
    for (const std::string& name : *names)
      last = std::max(last, ParseNumber<int64_t>(name).value_or(0));
  if (last <= 0) return "";
  const Result<Json> attempt = ReadJsonFile(JoinPath(attempts, std::to_string(last)), kMostBytes);
  return attempt.ok() ? StringOf(*attempt, "host") : "";
}

}  // namespace

std::optional<int64_t> StepOfLine(std::string_view line) {
  const std::optional<Json> record = ParseLine(line);
  return record ? StepOf(*record) : std::nullopt;
}

Result<AppendFile> ContinueLog(const std::string& path, std::optional<int64_t> last,
                               int64_t* dropped) {
  NXDKIT_ASSIGN(const bool there, IsThere(path));
  if (!last || !there) return AppendFile::Begin(path, "");
  NXDKIT_ASSIGN(const File before, File::OpenRead(path));
  return AppendFile::Begin(path, [&](AppendFile& log) {
    return ForEachLine(before, kMaxLineBytes, [&](std::string_view line, uint64_t, bool whole) {
      const std::optional<int64_t> step = whole ? StepOfLine(line) : std::nullopt;
      if (step && *step <= *last) return log.Append(std::string(line) + "\n");
      *dropped += whole ? 1 : 0;
      return OkStatus();
    });
  });
}

MetricSeries ParseMetrics(std::string_view text) {
  MetricSeries series;
  series.damaged = ForEachRecord(text, [&](int64_t step, const Json& record) {
    ++series.records;
    series.last_step = std::max(series.last_step, step);
    for (const auto& [key, value] : record.items())
      if (key != "step")
        AddNumbers(value, key.starts_with('/') ? key.substr(1) : key, step, series);
  });
  for (auto& [name, points] : series.by_name) Arrange(points);
  return series;
}

GenerationRecords ParseGenerations(std::string_view text) {
  GenerationRecords result;
  result.damaged = ForEachRecord(text, [&](int64_t step, const Json& record) {
    const Json* score = JsonFind(record, "score");
    const bool number = score != nullptr && score->is_number();
    result.records.push_back(
        {step,
         {StringOf(record, "prompt"), StringOf(record, "output"), StringOf(record, "ground_truth"),
          number ? score->get<double>() : std::nan("")}});
  });
  return result;
}

RunFiles ReadRunTimes(const std::string& folder) {
  RunFiles run;
  run.folder = folder;
  run.end = EndOf(folder);
  ReadMetrics(run);
  const std::string path = JoinPath(JoinPath(folder, kRunningLogFolder), kTrainerLog);
  const Result<bool> there = IsThere(path);
  if (!there.ok() || !*there) return run;
  const Result<std::string> log = ReadSmallFile(path, kMaxBytes);
  if (log.ok())
    run.clock = ParseRunningLog(*log);
  else
    run.problems.push_back(fmt::format("{}: {}", kTrainerLog, log.error().message()));
  return run;
}

Result<RunFiles> ReadRunFiles(const std::string& folder) {
  NXDKIT_ASSIGN(const bool is_folder, IsFolder(folder));
  if (!is_folder) return NotFound("there is no such folder").in(folder);
  RunFiles run = ReadRunTimes(folder);
  GenerationRecords generations =
      ParseGenerations(TextOf(folder, kGenerationRecordsFile, run).value_or(""));
  CountDamage(run, kGenerationRecordsFile, generations.damaged);
  run.generations = std::move(generations.records);
  ReadConfig(run);
  run.host = HostOf(folder);
  if (run.metrics.records == 0 && run.generations.empty() && run.config.empty())
    return NotFound("not a run: {}, {} and {} are missing or empty", kMetricsFile,
                    kGenerationRecordsFile, kConfigFile)
        .in(folder);
  return run;
}

}  // namespace nxdkit::trainer
