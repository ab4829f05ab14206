// PRIVATE to tests. Processes in /proc: those that a run must not leave behind.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/lib/eventually.h"
#include "tests/lib/rest_of.h"

namespace nxdkit::testing_util {

// "cmdline", "stat" and so on of a process that may end while being read: then the text is empty,
// or cut.
inline std::string ProcText(const std::filesystem::path& process, const char* name) {
  std::ifstream file(process / name);
  return RestOf(file);  // a failed read ends it; iterators would throw
}

// The part of its "stat" after "PID (NAME) ": state, parent, and so on. Empty when it is gone.
inline std::string ProcStat(const std::filesystem::path& process) {
  const std::string stat = ProcText(process, "stat");
  const size_t name = stat.rfind(") ");
  return name == stat.npos ? "" : stat.substr(name + 2);
}

// Neither gone, nor a zombie that another process has to reap.
inline bool Runs(pid_t process) {
  const std::string stat = ProcStat("/proc/" + std::to_string(process));
  return !stat.empty() && stat[0] != 'Z' && stat[0] != 'X';
}

// Processes with `word` in their command lines.
inline int CountProcesses(const std::string& word) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    if (ProcText(entry.path(), "cmdline").find(word) != std::string::npos) ++count;
  }
  return count;
}

// Whether they end, in time.
inline bool AreGone(const std::string& word) {
  return Eventually([&] { return CountProcesses(word) == 0; });
}
inline bool Ends(pid_t process) {
  return Eventually([&] { return !Runs(process); });
}

}  // namespace nxdkit::testing_util
