// PRIVATE to tests. Processes by a word of their command lines: what a run must not leave behind.
#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace nxdkit::testing_util {

// Processes whose command line holds `word`.
inline int CountProcesses(const std::string& word) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    if (line.find(word) != std::string::npos) ++count;
  }
  return count;
}

// Within ten seconds.
inline bool AreGone(const std::string& word) {
  for (int i = 0; i < 200; ++i) {
    if (CountProcesses(word) == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

}  // namespace nxdkit::testing_util
