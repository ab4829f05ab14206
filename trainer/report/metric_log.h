// The metrics and samples of a run, in its folder:
//   experiment_config.json   the configuration
//   experiment_log.jsonl     a line per call: {"step": 3, "actor": {"pg_loss": 0.1}, ...}, nested
//                            where names have a "/"; numbers as Python's json writes them
//   generations.log          samples for people: [prompt], [output], [ground_truth], [score]
//   generations.jsonl        the same samples with their step, a line each, for programs
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "trainer/report/append_file.h"
#include "trainer/report/metrics.h"

namespace nxdkit::trainer {

inline constexpr std::string_view kConfigFile = "experiment_config.json";
inline constexpr std::string_view kMetricsFile = "experiment_log.jsonl";
inline constexpr std::string_view kGenerationsFile = "generations.log";
inline constexpr std::string_view kGenerationRecordsFile = "generations.jsonl";

struct Generation {
  std::string prompt;
  std::string output;
  std::string ground_truth;
  double score = 0;
};

// Not thread-safe.
class MetricLog {
 public:
  // `resumed_step`: the step of the checkpoint from which the run continues; records of later steps
  // and damaged lines are dropped. Without it the run is new and the files start empty. An existing
  // log that cannot be read is an error: it would be lost. `config_json` is always written: it is
  // the configuration of this run.
  static Result<MetricLog> Open(const std::string& folder, std::optional<int64_t> resumed_step,
                                std::string_view config_json);

  // Records of one step may come in several calls (training, validation).
  Status Write(int64_t step, const MetricRecord& record);
  Status WriteGenerations(int64_t step, std::span<const Generation> samples);
  // Syncs to disk: before a checkpoint of this step is published.
  Status Sync();

  int64_t dropped() const { return dropped_; }  // records after the resumed step

 private:
  AppendFile metrics_;
  AppendFile generations_;
  AppendFile generation_records_;
  int64_t dropped_ = 0;
};

// One line of experiment_log.jsonl, with its line feed. A name that is both a value and a group
// ("a" and "a/b") keeps its "/".
std::string MetricLine(int64_t step, const MetricRecord& record);
// One line of generations.jsonl, with its line feed.
std::string GenerationLine(int64_t step, const Generation& sample);
// In the form of generations.log: four tagged lines and an empty one. Control characters except
// line feeds and tabs are escaped.
std::string GenerationText(const Generation& sample);

}  // namespace nxdkit::trainer
