#include "trainer/report/run_log.h"

#include <fmt/core.h>

#include <cstddef>
#include <ctime>
#include <span>
#include <utility>

#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "trainer/base/characters.h"

namespace nxdkit::trainer {
namespace {

std::string Below(const std::string& run_folder, std::string_view name) {
  return JoinPath(JoinPath(run_folder, kRunningLogFolder), name);
}

// A crash may have cut the last line: what comes next must not become a part of it.
Result<bool> EndsWithinALine(const std::string& path) {
  NXDKIT_ASSIGN(const File file, File::OpenRead(path));
  if (file.bytes() == 0) return false;
  std::byte last{};
  NXDKIT_TRY(file.ReadAt(file.bytes() - 1, std::span(&last, 1)));
  return last != std::byte{'\n'};
}

}  // namespace

std::string TimeText(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts = {};
  ::gmtime_r(&time, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

int64_t SecondsNow() { return std::time(nullptr); }

std::vector<std::string> WorkerLogPaths(const std::string& run_folder, int64_t workers) {
  std::vector<std::string> paths;
  for (int64_t worker = 0; worker < workers; ++worker)
    paths.push_back(Below(run_folder, fmt::format("rollout_worker_{}.log", worker)));
  return paths;
}

Result<RunLog> RunLog::Open(const std::string& run_folder, Clock clock) {
  const std::string folder = JoinPath(run_folder, kRunningLogFolder);
  NXDKIT_TRY(MakeFolders(folder));
  RunLog log;
  log.clock_ = std::move(clock);
  const std::string path = Below(run_folder, "trainer.log");
  NXDKIT_ASSIGN(const bool there, IsThere(path));
  if (!there) {
    NXDKIT_ASSIGN(log.file_, AppendFile::Begin(path, ""));
    return log;
  }
  NXDKIT_ASSIGN(const bool cut, EndsWithinALine(path));
  NXDKIT_ASSIGN(log.file_, AppendFile::Open(path));
  if (cut) NXDKIT_TRY(log.file_.Append("\n"));
  return log;
}

Status RunLog::Line(std::string_view text) {
  const std::string time = TimeText(clock_());
  if (text.ends_with('\n')) text.remove_suffix(1);
  std::string lines;
  for (const std::string_view line : Split(text, '\n'))
    lines += time + " " + EscapeControl(line) + "\n";
  return file_.Append(lines);
}

}  // namespace nxdkit::trainer
