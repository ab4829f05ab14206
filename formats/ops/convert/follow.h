// The steps of a run that is going on, each as soon as it is whole, oldest first.
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
  std::string run;                  // its folder, which may still be to come
  std::optional<int64_t> until;     // ends with this step, or a later one
  std::chrono::seconds idle{3600};  // ends when nothing has come for so long
  // Without a tracker or a marker a step is whole when nothing in it has changed for so long.
  std::chrono::seconds settle{30};
  bool newest_only = false;  // older ones than the newest whole step are passed over
  std::chrono::milliseconds interval{2000};  // between two looks
  std::function<Status()> poll = nullptr;    // asked while waiting: an error ends it
  std::function<void(const std::string&)> warn = nullptr;
};

// Makes the output of a step. kCorrupt and kNotFound are of a step that may not be whole yet: it is
// tried again when it has changed. Any other error ends all.
using ConvertStep = std::function<Status(const RunStep&)>;

struct FollowReport {
  std::vector<RunStep> made;
  std::vector<std::pair<RunStep, Error>> failed;  // steps that stayed unreadable
};

// The folders directly below the run's whose names end in "_N" or "-N", by number.
Result<std::vector<RunStep>> FindRunSteps(const std::string& run);

// kNotFound when `until` has not come before the end, and where not even the folder is that the
// run's would be in.
Result<FollowReport> Follow(const FollowRequest& request, const ConvertStep& convert);

}  // namespace nxdkit::ops
