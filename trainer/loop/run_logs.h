// PRIVATE to trainer/loop. What a run writes down as it trains: metrics and samples
// (report/metric_log.h), which weights generated what, and TensorBoard's events.
#pragma once

#include <optional>
#include <string>

#include "trainer/loop/loop_context.h"
#include "trainer/loop/weight_sync.h"
#include "trainer/report/event_file.h"
#include "trainer/report/metric_log.h"
#include "trainer/rollout/engine.h"

namespace nxdkit::trainer {

struct RunLogs {
  // Continued after step `resumed`, without one begun.
  static Result<RunLogs> Open(const LoopContext& run, std::optional<int64_t> resumed,
                              const std::string& config_json);

  Status Write(int64_t step, const MetricRecord& record);
  // `step`: the one that the weights were synced for.
  Status WriteSync(int64_t step, const SyncedWeights& synced, const EngineFacts& loaded);

  MetricLog metrics;  // and samples
  AppendFile syncs;
  std::optional<EventFile> events;
};

}  // namespace nxdkit::trainer
