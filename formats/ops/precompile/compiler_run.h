// PRIVATE to formats/ops/precompile: one run of the compiler over one graph, in a work folder of
// its own.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "formats/ops/precompile/compiler.h"
#include "formats/ops/precompile/scratch_folder.h"
#include "lib/base/stopwatch.h"
#include "lib/system/child.h"

namespace nxdkit::ops {

inline constexpr char kWorkFolder[] = "nxdkit-compile";  // a ScratchFolder

enum class CompilerEnd : uint8_t {
  kDone,       // a complete NEFF was made
  kGaveUp,     // it ended with an error of its own
  kCannotRun,  // it is broken: a module or a program that it needs is missing
  kExit70,     // the same with a status that one of many compilers gets by chance
  kKilled,     // by a signal, or out of memory, as it reports
  kTimedOut,   // ended by us
  kDiskIsFull  // as it reports
};
// Whether it may succeed if nothing else runs.
inline bool IsByChance(CompilerEnd end) {
  return end == CompilerEnd::kExit70 || end == CompilerEnd::kKilled;
}

struct CompilerOutcome {
  CompilerEnd end = CompilerEnd::kDone;
  std::string message;  // the reason, one line; "" if it is done
  std::string log;      // its end, bounded
  double seconds = 0;
};

// Move-only. The compiler ends with the object, and with this process.
class CompilerRun {
 public:
  static Result<CompilerRun> Start(const GraphCompiler& compiler, const neff::Graph& graph,
                                   const std::string& target, const std::string& work_parent);

  bool WaitForEnd(std::chrono::milliseconds most) const { return process_.WaitForEnd(most); }
  double seconds() const { return watch_.Seconds(); }
  // After it has ended.
  Result<CompilerOutcome> Finish();
  void EndNow();                       // for a run that took too long
  std::string neff() const;            // the path of the result
  void KeepResult() { work_.Keep(); }  // for people, if it could not be published

 private:
  CompilerRun(ScratchFolder work, std::string stem, Process process, std::optional<Keeper> keeper)
      : work_(std::move(work)),
        stem_(std::move(stem)),
        process_(std::move(process)),
        keeper_(std::move(keeper)) {}

  std::string Log() const;
  Result<CompilerOutcome> Judge(int exit_code, CompilerOutcome outcome) const;

  ScratchFolder work_;  // removed after the processes in it have ended
  std::string stem_;
  Process process_;
  std::optional<Keeper> keeper_;
  Stopwatch watch_;
  bool has_timed_out_ = false;
};

}  // namespace nxdkit::ops
