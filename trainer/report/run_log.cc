#include "trainer/report/run_log.h"

#include <fmt/core.h>

#include <cstddef>
#include <ctime>
#include <span>
#include <utility>

#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

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
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
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
  if (KindOf(path) == PathKind::kMissing) {
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
  std::string lines;
  while (true) {
    const size_t end = text.find('\n');
    lines += time + " " + EscapeControl(text.substr(0, end)) + "\n";
    if (end == std::string_view::npos || end + 1 == text.size()) break;
    text.remove_prefix(end + 1);
  }
  return file_.Append(lines);
}

}  // namespace nxdkit::trainer
