// PRIVATE to trainer/loop. What a run writes down as it trains: metrics and samples
// (report/metric_log.h), which weights generated what, and TensorBoard's events.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "trainer/loop/loop_context.h"
#include "trainer/report/event_file.h"
#include "trainer/report/metric_log.h"

namespace nxdkit::trainer {

class RunLogs {
 public:
  // Continued after step `resumed`, without one begun.
  static Result<RunLogs> Open(const LoopContext& run, std::optional<int64_t> resumed,
                              const std::string& config_json);

  Status Write(int64_t step, const MetricRecord& record);
  Status WriteGenerations(int64_t step, std::span<const Generation> samples) {
    return metrics_.WriteGenerations(step, samples);
  }
  // `step`: the one that the weights were synced for.
  Status WriteSync(int64_t step, const SyncedWeights& synced);
  Status Sync() { return metrics_.Sync(); }  // on the disk, before a checkpoint is published

 private:
  MetricLog metrics_;
  AppendFile syncs_;
  std::optional<EventFile> events_;
};

}  // namespace nxdkit::trainer
