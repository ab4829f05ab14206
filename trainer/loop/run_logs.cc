#include "trainer/loop/run_logs.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/json/json.h"
#include "lib/system/folders.h"
#include "trainer/report/run_files.h"

namespace nxdkit::trainer {
namespace {

constexpr char kSyncs[] = "weight_syncs.jsonl";

}  // namespace

Result<RunLogs> RunLogs::Open(const LoopContext& run, std::optional<int64_t> resumed,
                              const std::string& config_json) {
  const TrainerConfig& trainer = run.config.trainer;
  const std::string& root = run.root();
  NXDKIT_ASSIGN(const bool has_log, HasFile(root, kMetricsFile));
  if (!resumed && has_log)
    run.Note(fmt::format("{} has a log but no checkpoint: the run and its log start over", root));
  RunLogs logs;
  NXDKIT_ASSIGN(logs.metrics, MetricLog::Open(root, resumed, config_json));
  int64_t dropped = 0;
  NXDKIT_ASSIGN(logs.syncs, ContinueLog(JoinPath(root, kSyncs), resumed, &dropped));
  if (logs.metrics.dropped() > 0)
    run.Note(fmt::format("{} records of steps after {} are dropped from the logs",
                         logs.metrics.dropped(), *resumed));
  if (std::ranges::find(trainer.logger, "tensorboard") == trainer.logger.end()) return logs;
  NXDKIT_ASSIGN(logs.events,
                EventFile::Create(TensorboardFolder(trainer.tensorboard_dir.value_or(""),
                                                    trainer.project_name, trainer.experiment_name),
                                  resumed.value_or(0)));
  return logs;
}

Status RunLogs::Write(int64_t step, const MetricRecord& record) {
  NXDKIT_TRY(metrics.Write(step, record));
  return events ? events->WriteScalars(step, record) : OkStatus();
}

Status RunLogs::WriteSync(int64_t step, const SyncedWeights& synced, const EngineFacts& loaded) {
  return syncs.Append(fmt::format(
      "{{\"step\": {}, \"serial\": {}, \"digest\": \"{}\", \"engine\": {}, \"proved\": {}, "
      "\"not_covered\": {}}}\n",
      step, synced.version.serial, synced.digest,
      Json(loaded.engine).dump(-1, ' ', true, Json::error_handler_t::replace), loaded.proved,
      loaded.not_covered));
}

}  // namespace nxdkit::trainer
