// The owner of an entry of a vLLM Neuron tree, who compiles it: `.<key>.compilation_metadata`.
// Facts: FORMAT.md beside this file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/compile_cache/leftovers.h"
#include "lib/base/error.h"

namespace nxdkit::neff {

std::string OwnerFileName(std::string_view key);  // ".<key>.compilation_metadata"
std::string OwnerLockName(std::string_view key);  // the same and ".lock": a flock
// The key, of either name; nullopt for any other.
std::optional<std::string> KeyOfOwnerFile(std::string_view name);
std::optional<std::string> KeyOfOwnerLock(std::string_view name);

struct LiteOwner {
  int64_t pid = 0;
  std::string process_name;
  std::optional<std::vector<std::string>> words;  // the command line; nullopt: not readable
};
// The lines "pid:", "process_name:", "cmdline:" (a list as Python prints it). kCorrupt without a
// pid.
Result<LiteOwner> ParseOwnerFile(std::string_view text);

// The file as the engine would write it of this process.
std::string OwnerTextOfThisProcess();

enum class OwnerState {
  kNone,   // there is no such file, and nobody holds the lock
  kAlive,  // or it cannot be told
  kDead
};
// The lock that is held, or, on a machine's own file system, a process of the same pid, name and
// command line: alive. Where other machines may have the same files the file has to be a day old.
Result<OwnerState> AskOwner(const std::string& root, std::string_view key,
                            const TreeMoment& moment);

}  // namespace nxdkit::neff
