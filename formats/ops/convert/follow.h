// Follows a run: each step is converted as soon as it is complete, oldest first.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::ops {

struct RunStep {
  int64_t number = 0;
  std::string name;  // "global_step_20", "checkpoint-500"
  std::string path;
};

struct FollowRequest {
  std::string run;                  // its folder, which need not exist yet
  std::optional<int64_t> until;     // ends with this step, or a later one
  std::chrono::seconds idle{3600};  // ends when nothing has come for this long
  // Without a tracker or a marker a step is complete when nothing in it has changed for this long.
  std::chrono::seconds settle{30};
  bool newest_only = false;                  // passes over steps older than the newest complete one
  std::chrono::milliseconds interval{2000};  // between two looks
  std::function<Status()> poll = nullptr;    // called while waiting; an error ends it
  std::function<void(const std::string&)> warn = nullptr;
};

// Makes the output of a step. kCorrupt and kNotFound mean that the step may not be complete yet: it
// is tried again when it has changed. Any other error ends everything.
using ConvertStep = std::function<Status(const RunStep&)>;

struct FollowReport {
  std::vector<RunStep> made;
  std::vector<std::pair<RunStep, Error>> failed;  // steps that remained unreadable
};

// The folders directly below the run's whose names end in "_N" or "-N", by number.
Result<std::vector<RunStep>> FindRunSteps(const std::string& run);

// kNotFound if `until` has not come before the end, or if even the folder around the run's does not
// exist.
Result<FollowReport> Follow(const FollowRequest& request, const ConvertStep& convert);

}  // namespace nxdkit::ops
