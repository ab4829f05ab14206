#include "formats/ops/convert/follow.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "formats/artifact/words.h"
#include "formats/kinds/run_folder.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/look.h"
#include "lib/system/paths.h"

namespace nxdkit::ops {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostEntries = 100'000;  // looked at in a step's folder
constexpr std::chrono::milliseconds kSlice{100};
// The files that writers write last: of an NxD tag, a distributed checkpoint; and of a step with an
// actor in it.
constexpr const char* kMarkers[] = {"done", ".metadata", "actor/done"};

// 20 of "global_step_20", 500 of "checkpoint-500".
std::optional<int64_t> NumberOf(std::string_view name) {
  if (name.find('.') != std::string_view::npos) return std::nullopt;
  const size_t at = name.find_last_not_of("0123456789");
  if (at == std::string_view::npos || at + 1 == name.size() || at == 0) return std::nullopt;
  if (name[at] != '_' && name[at] != '-') return std::nullopt;
  return ParseNumber<int64_t>(name.substr(at + 1));
}

// The time of the last change in the folder, by the clock of files.
Result<int64_t> LastChange(const std::string& folder) {
  NXDKIT_ASSIGN(const std::vector<TreeEntry> entries, ListTree(folder));
  int64_t last = 0;
  for (size_t i = 0; i < std::min(entries.size(), kMostEntries); ++i) {
    NXDKIT_ASSIGN(const PathInfo info, LookAtLink(JoinPath(folder, entries[i].path)));
    last = std::max({last, info.written_ns, info.changed_ns});
  }
  return last;
}

int64_t NowOfFiles() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

class Follower {
 public:
  Follower(const FollowRequest& request, const ConvertStep& convert)
      : request_(request), convert_(convert) {}

  Result<FollowReport> Run() {
    NXDKIT_TRY(CheckPlace());
    Clock::time_point news = Clock::now();
    while (true) {
      NXDKIT_ASSIGN(const bool any, Look());
      if (any) news = Clock::now();
      if (IsOver()) break;
      if (Clock::now() - news >= request_.idle) {
        if (!request_.until) break;
        return NotFound("step {} has not come; for {} seconds there was nothing new",
                        *request_.until, request_.idle.count())
            .in(request_.run)
            .hint(WaitsFor());
      }
      NXDKIT_TRY(Wait());
    }
    for (auto& [number, failure] : unreadable_)
      report_.failed.emplace_back(std::move(failure.step), std::move(*failure.error));
    return std::move(report_);
  }

 private:
  struct Failure {
    RunStep step;
    int64_t changed = 0;
    std::optional<Error> error;
  };

  // A run makes its own folder, but not the one above: that name is mistyped.
  Status CheckPlace() const {
    NXDKIT_ASSIGN(const PathKind kind, KindOf(request_.run));
    if (kind == PathKind::kFolder) return OkStatus();
    if (kind != PathKind::kMissing)
      return BadUsage("the folder of a run is followed; this is a file").in(request_.run);
    const std::string above = ParentPath(request_.run);
    NXDKIT_ASSIGN(const bool has_place, IsFolder(above.empty() ? "." : above));
    if (!has_place) return NotFound("no such folder").in(request_.run);
    Warn(fmt::format("{} is not there yet", request_.run));
    return OkStatus();
  }

  // Converts the steps that are complete and were not tried in this state; returns whether there
  // was any.
  Result<bool> Look() {
    NXDKIT_ASSIGN(std::vector<RunStep> steps, FindRunSteps(request_.run));
    const std::optional<int64_t> tracked = Tracked();
    std::erase_if(steps, [&](const RunStep& step) { return done_.contains(step.name); });
    std::vector<std::pair<RunStep, int64_t>> whole;
    for (RunStep& step : steps) {
      const Result<int64_t> changed = LastChange(step.path);
      if (!changed.ok()) continue;  // it is being removed
      NXDKIT_ASSIGN(const bool is_whole, IsWhole(step, tracked, *changed));
      if (is_whole) whole.emplace_back(std::move(step), *changed);
    }
    if (request_.newest_only) PassOver(whole);
    bool any = false;
    for (const auto& [step, changed] : whole) {
      const auto before = unreadable_.find(step.number);
      if (before != unreadable_.end() && before->second.changed == changed) continue;
      NXDKIT_ASSIGN(const bool made, Take(step, changed));
      any |= made;
      if (made && request_.until && step.number >= *request_.until) break;
    }
    return any;
  }

  Result<bool> Take(const RunStep& step, int64_t changed) {
    const Status status = convert_(step);
    if (status.ok()) {
      unreadable_.erase(step.number);
      done_.insert(step.name);
      report_.made.push_back(step);
      return true;
    }
    const Error& error = status.error();
    NXDKIT_ASSIGN(const bool there, IsFolder(step.path));
    // Only a missing file of the step itself may still come: another one is the user's mistake.
    const bool is_step = error.file().starts_with(step.path);
    const bool may_come =
        is_step && (error.code() == Errc::kCorrupt || error.code() == Errc::kNotFound);
    if (there && !may_come) return error;
    if (!there) {
      Warn(fmt::format("{} was removed before it was converted", step.name));
      done_.insert(step.name);
      return false;
    }
    if (!unreadable_.contains(step.number))
      Warn(fmt::format("{} cannot be read, and will be tried again when it changes: {}", step.name,
                       error.ToString()));
    unreadable_[step.number] = {step, changed, error};
    return false;
  }

  // Passes over steps older than the newest complete one, or than one that was converted before.
  void PassOver(std::vector<std::pair<RunStep, int64_t>>& whole) {
    if (whole.empty()) return;
    int64_t newest = whole.back().first.number;
    for (const RunStep& step : report_.made) newest = std::max(newest, step.number);
    std::erase_if(whole, [&](const auto& item) {
      if (item.first.number >= newest) return false;
      done_.insert(item.first.name);
      return true;
    });
  }

  // The step that the run's tracker names; the run writes it last.
  std::optional<int64_t> Tracked() const {
    const Result<std::optional<kinds::RunTracker>> tracker = kinds::ReadRunTracker(request_.run);
    return tracker.ok() && *tracker ? std::optional((*tracker)->step) : std::nullopt;
  }

  Result<bool> IsWhole(const RunStep& step, std::optional<int64_t> tracked, int64_t changed) const {
    if (tracked) return step.number <= *tracked;
    for (const char* marker : kMarkers) {
      NXDKIT_ASSIGN(const bool there, IsFile(JoinPath(step.path, marker)));
      if (there) return true;
    }
    const auto settled = std::chrono::nanoseconds(request_.settle).count();
    return changed > 0 && NowOfFiles() - changed >= settled;
  }

  bool IsOver() const {
    return request_.until && std::ranges::any_of(report_.made, [&](const RunStep& step) {
             return step.number >= *request_.until;
           });
  }

  std::string WaitsFor() const {
    if (unreadable_.empty()) return "--idle SECONDS waits longer";
    const Failure& first = unreadable_.begin()->second;
    return fmt::format("{} cannot be read: {}", first.step.name, first.error->ToString());
  }

  Status Wait() const {
    for (auto left = request_.interval; left.count() > 0; left -= kSlice) {
      if (request_.poll) NXDKIT_TRY(request_.poll());
      std::this_thread::sleep_for(std::min(left, kSlice));
    }
    return request_.poll ? request_.poll() : OkStatus();
  }

  void Warn(const std::string& text) const {
    if (request_.warn) request_.warn(text);
  }

  const FollowRequest& request_;
  const ConvertStep& convert_;
  std::set<std::string> done_;  // names of steps that were converted, passed over, or are gone
  std::map<int64_t, Failure> unreadable_;
  FollowReport report_;
};

}  // namespace

Result<std::vector<RunStep>> FindRunSteps(const std::string& run) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListIfThere(run));
  std::vector<RunStep> steps;
  for (const std::string& name : names) {
    const std::optional<int64_t> number = NumberOf(name);
    if (!number) continue;
    std::string path = JoinPath(run, name);
    const Result<bool> is_folder = IsFolder(path);  // a link may lead nowhere
    if (is_folder.ok() && *is_folder) steps.push_back({*number, name, std::move(path)});
  }
  std::ranges::stable_sort(steps, {}, &RunStep::number);
  return steps;
}

Result<FollowReport> Follow(const FollowRequest& request, const ConvertStep& convert) {
  return Follower(request, convert).Run();
}

}  // namespace nxdkit::ops
