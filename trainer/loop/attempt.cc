#include "trainer/loop/attempt.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <nlohmann/json.hpp>
#include <vector>

#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/system/descriptor.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/process.h"

namespace nxdkit::trainer {
namespace {

constexpr const char* kFolder = "attempts";
constexpr const char* kDone = "DONE";
constexpr const char* kLooks = ".looks-";  // + the number of the attempt
constexpr uint64_t kMostBytes = 64 << 10;
constexpr int kMostTries = 1000;

std::string FolderOf(const std::string& run_folder) { return JoinPath(run_folder, kFolder); }
std::string FileOf(const std::string& run_folder, int64_t number) {
  return JoinPath(FolderOf(run_folder), std::to_string(number));
}

// The numbers of all attempts, unordered.
Result<std::vector<int64_t>> NumbersIn(const std::string& folder) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(folder));
  std::vector<int64_t> numbers;
  for (const std::string& name : names)
    if (const auto number = ParseNumber<int64_t>(name); number && *number > 0 && *number < INT_MAX)
      numbers.push_back(*number);
  return numbers;
}

std::string AttemptText() {
  char host[HOST_NAME_MAX + 1] = {};
  ::gethostname(host, sizeof host - 1);
  Json json = {{"host", host}, {"process", ::getpid()}};
  for (const char* name : {"SLURM_JOB_ID", "SLURM_RESTART_COUNT", "JOB_NAME", "VC_TASK_INDEX"})
    if (const std::string value = EnvironmentValue(name); !value.empty()) json[name] = value;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// False if another process has created it meanwhile.
Result<bool> MakeFile(const std::string& path, const std::string& text) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.is_open() && errno == EEXIST) return false;
  if (!file.is_open()) return OutputError("create", errno).in(path);
  if (::write(file.fd(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(file.fd()) == 0)
    return true;
  const Error error = OutputError("write", errno).in(path);
  ::unlink(path.c_str());
  return error;
}

Status Remove(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return OkStatus();
  return OutputError("remove", errno).in(path);
}

}  // namespace

Result<Attempt> Attempt::Claim(const std::string& run_folder) {
  const std::string folder = FolderOf(run_folder);
  NXDKIT_TRY(MakeFolders(folder));
  // Tries each number once: a listing over a network may be out of date.
  int64_t mine = 0;
  for (int tried = 0; tried < kMostTries; ++tried) {
    NXDKIT_ASSIGN(const std::vector<int64_t> numbers, NumbersIn(folder));
    mine = std::max(numbers.empty() ? 0 : std::ranges::max(numbers), mine) + 1;
    NXDKIT_ASSIGN(const bool made, MakeFile(FileOf(run_folder, mine), AttemptText()));
    if (!made) continue;
    // Only the newest attempt is ever read: the others can go.
    for (const int64_t number : numbers) ::unlink(FileOf(run_folder, number).c_str());
    return Attempt(run_folder, mine);
  }
  return Error(Errc::kIo,
               fmt::format("there are {} attempts after the last one listed", kMostTries))
      .in(folder)
      .hint("remove the files of attempts that have ended");
}

Status Attempt::Check() const {
  const std::string touched = JoinPath(FolderOf(run_folder_), fmt::format("{}{}", kLooks, number_));
  NXDKIT_TRY(MakeFile(touched, ""));
  NXDKIT_TRY(Remove(touched));
  NXDKIT_ASSIGN(const std::vector<int64_t> numbers, NumbersIn(FolderOf(run_folder_)));
  const int64_t last = numbers.empty() ? 0 : std::ranges::max(numbers);
  if (last <= number_) return OkStatus();
  const std::string path = FileOf(run_folder_, last);
  std::string host = "another machine";
  if (const auto json = ReadJsonFile(path, kMostBytes); json.ok())
    if (const auto found = JsonString(*json, "host"); found.ok()) host = *found;
  return Error(Errc::kIo, "attempt " + std::to_string(last) +
                              " has taken this run over from attempt " + std::to_string(number_) +
                              ", on " + EscapeControl(host))
      .in(path)
      .hint("end one of the two: they are attempts at the same run");
}

Status Attempt::Done(int64_t step) const {
  NXDKIT_TRY(Check());
  const Json json = {{"attempt", number_}, {"step", step}};
  return WriteFileAtomic(JoinPath(run_folder_, kDone), json.dump() + "\n");
}

Status Attempt::ClearDone() const { return Remove(JoinPath(run_folder_, kDone)); }

}  // namespace nxdkit::trainer
