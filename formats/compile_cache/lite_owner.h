// The owner of an entry of a vLLM Neuron tree, which compiles it: `.<key>.compilation_metadata`.
// Facts: FORMAT.md.
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
std::string OwnerLockName(std::string_view key);  // with ".lock": a flock
// The key in either name; nullopt for any other.
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

// The owner's file as the engine would write it for this process.
std::string OwnerTextOfThisProcess();

enum class OwnerState {
  kNone,   // no such file, and nobody holds the lock
  kAlive,  // or unknown
  kDead
};
// Alive: the lock is held, or, on a machine's own file system, there is a process with the same
// pid, name and command line. On a file system that other machines may share, the file counts as
// dead once it is a day old.
Result<OwnerState> AskOwner(const std::string& root, std::string_view key,
                            const TreeMoment& moment);

}  // namespace nxdkit::neff
