// Reads a run's files, for a resumed run and for the report. Nothing in them is trusted: damaged
// lines are counted and skipped.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/page/series.h"
#include "trainer/report/append_file.h"
#include "trainer/report/metric_log.h"
#include "trainer/report/run_clock.h"

namespace nxdkit::trainer {

// "step" of a line that is a JSON object with an integer there; nullopt otherwise.
std::optional<int64_t> StepOfLine(std::string_view line);

// Continues a log of such lines after step `last`: lines of later steps and damaged ones are
// removed and counted. nullopt starts it anew, without counting; a missing file is created.
Result<AppendFile> ContinueLog(const std::string& path, std::optional<int64_t> last,
                               int64_t* dropped);

using page::Point;

struct MetricSeries {
  std::map<std::string, std::vector<Point>> by_name;  // ascending steps; the last record of a step
  int64_t records = 0;
  int64_t last_step = 0;  // the highest of the records; 0 without one
  int64_t damaged = 0;    // number of lines
};
MetricSeries ParseMetrics(std::string_view text);

struct GenerationRecord {
  int64_t step = 0;
  Generation sample;
};
struct GenerationRecords {
  std::vector<GenerationRecord> records;  // in the order of the file
  int64_t damaged = 0;
};
GenerationRecords ParseGenerations(std::string_view text);

// The data of HtmlReport.
struct RunFiles {
  std::string folder;
  MetricSeries metrics;
  std::optional<int64_t> end;  // the last step of a run that has ended
  RunClock clock;              // empty without a running_log
  std::string host;            // of the last start; "": not recorded
  std::vector<GenerationRecord> generations;
  // Leaves of experiment_config.json by their path: {"data.seed", "1"}, in the file's order.
  std::vector<std::pair<std::string, std::string>> config;
  std::vector<std::string> problems;  // missing or damaged parts, for people
};
// kNotFound when `folder` is not a folder or contains none of the files.
Result<RunFiles> ReadRunFiles(const std::string& folder);
// The metrics and the clock alone; a folder without them is not an error.
RunFiles ReadRunTimes(const std::string& folder);

}  // namespace nxdkit::trainer
