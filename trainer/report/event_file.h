// TensorBoard event files: TFRecord frames around Event messages, written by hand. See README.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trainer/report/append_file.h"
#include "trainer/report/metrics.h"

namespace nxdkit::trainer {

// Frames and messages as bytes; `wall_time` in seconds since 1970.
std::string EventFrame(std::string_view event);
std::string VersionEvent(double wall_time);
std::string ScalarsEvent(double wall_time, int64_t step, const MetricRecord& record);
// Displayed by TensorBoard's text plugin, as Markdown.
std::string TextEvent(double wall_time, int64_t step, std::string_view tag, std::string_view text);
// Tells readers to forget events of `step` and later from older files of the folder.
std::string RestartEvent(double wall_time, int64_t step);

// CRC-32C of the bytes, rotated and offset as TFRecord does.
uint32_t MaskedCrc32c(std::string_view bytes);

// One new file per run or resumed run. Not thread-safe.
class EventFile {
 public:
  // The file is folder/events.out.tfevents.<seconds>.<host>.<pid>.<n>, never an existing one.
  // `resumed_step` 0: nothing to forget.
  static Result<EventFile> Create(const std::string& folder, int64_t resumed_step);

  Status WriteScalars(int64_t step, const MetricRecord& record);
  Status WriteText(int64_t step, std::string_view tag, std::string_view text);
  Status Sync() { return file_.Sync(); }
  const std::string& path() const { return path_; }

 private:
  AppendFile file_;
  std::string path_;
};

// trainer.tensorboard_dir, else $TENSORBOARD_DIR, else tensorboard_log; then /project/experiment.
std::string TensorboardFolder(std::string_view configured, std::string_view project,
                              std::string_view experiment);

}  // namespace nxdkit::trainer
