#include "formats/kinds/run_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

constexpr uint64_t kMaxTrackerBytes = 1 << 20;

// The actor of a step; its critic if it has no actor; SkyRL calls an actor a policy.
Result<std::string> ActorIn(const std::string& step, const Looker& look) {
  for (const char* role : {kActorFolder, "policy", kCriticFolder}) {
    std::string folder = JoinPath(step, role);
    NXDKIT_ASSIGN(const bool there, look.IsFolder(folder));
    if (there) return folder;
  }
  return std::string();
}
Result<std::string> ActorOf(const std::string& root, int64_t step, const Looker& look) {
  return ActorIn(JoinPath(root, StepFolder(step)), look);
}

// The actors of a run, by step: whether they are complete.
Result<std::map<int64_t, bool>> ActorsIn(const std::string& root, const Looker& look) {
  std::map<int64_t, bool> actors;
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListIfThere(root));
  for (const std::string& name : names) {
    const auto step = StepOfFolder(name);
    if (!step) continue;
    NXDKIT_ASSIGN(const std::string actor, ActorOf(root, *step, look));
    if (actor.empty()) continue;
    NXDKIT_ASSIGN(const bool finished, look.IsFile(JoinPath(actor, "done")));
    actors.emplace(*step, finished);
  }
  return actors;
}

Result<bool> IsCheckpointItself(const std::string& path, const Looker& look) {
  for (const char* name : {"config.json", "neuron_config.json"}) {
    NXDKIT_ASSIGN(const bool there, look.HasFile(path, name));
    if (there) return true;
  }
  return look.IsFolder(JoinPath(path, "model"));
}

}  // namespace

std::optional<int64_t> StepOfFolder(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const std::optional<int64_t> step = ParseNumber<int64_t>(name.substr(kStepPrefix.size()));
  return step && *step >= 0 ? step : std::nullopt;
}

std::string StepFolder(int64_t step) { return std::string(kStepPrefix) + std::to_string(step); }

// The files that other trainers, and earlier releases, have instead of the tracker.
Result<std::optional<RunTracker>> ReadStepFile(const std::string& root) {
  for (const std::string_view name : kStepFiles) {
    const std::string path = JoinPath(root, std::string(name));
    NXDKIT_ASSIGN(const bool there, IsThere(path));
    if (!there) continue;
    NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, kMaxTrackerBytes));
    const size_t end = text.find_last_not_of(" \n") + 1;
    const std::optional<int64_t> step = ParseNumber<int64_t>(std::string_view(text).substr(0, end));
    if (!step || *step < 0)
      return Corrupt("found \"{}\", expected the number of a step", text.substr(0, 40)).in(path);
    return std::optional(RunTracker{*step, std::nullopt, std::nullopt, path});
  }
  return std::optional<RunTracker>();
}

Result<std::optional<RunTracker>> ReadRunTracker(const std::string& root) {
  const std::string path = JoinPath(root, kRunTracker);
  NXDKIT_ASSIGN(const bool there, IsThere(path));
  if (!there) return ReadStepFile(root);
  NXDKIT_ASSIGN(const Json json, ReadJsonFile(path, kMaxTrackerBytes));
  if (!json.is_object()) return Corrupt("found no object").in(path);
  constexpr const char* kStep = "last_global_step";
  const Result<int64_t> step = JsonInt(json, kStep);
  if (!step.ok()) return Error(step.error()).in(path);
  if (*step < 0)
    return Corrupt("found {}, expected 0 to {}", *step, INT64_MAX).in(path).member(kStep);
  RunTracker tracker{*step, std::nullopt, std::nullopt, path};
  const Json* best = JsonFind(json, "best_global_step");
  const Json* score = JsonFind(json, "best_val_reward_score");
  if (best && best->is_number_integer() && score && score->is_number()) {
    tracker.best_step = best->get<int64_t>();
    tracker.best_score = score->get<double>();
  }
  return std::optional(tracker);
}

namespace {

// The reason why the tracker is not followed.
std::optional<Error> TrackerFault(const RunTracker& tracker, const std::map<int64_t, bool>& whole,
                                  bool any_whole) {
  const auto named = whole.find(tracker.step);
  const std::string& path = tracker.file;
  if (named == whole.end())
    return Corrupt("it names {}, which is gone", StepFolder(tracker.step)).in(path);
  if (any_whole && !named->second)
    return Corrupt("it names {}, which is not complete", StepFolder(tracker.step)).in(path);
  return std::nullopt;
}

}  // namespace

std::vector<std::string> ChosenStep::Warnings() const {
  std::vector<std::string> warnings;
  if (tracker_fault)
    warnings.push_back(
        fmt::format("{}; it is passed over, and {}, the newest checkpoint that is there, is taken",
                    tracker_fault->ToString(), StepFolder(step)));
  if (!doubt.empty()) warnings.push_back(doubt);
  return warnings;
}

Result<ChosenStep> ChooseRunStep(const std::string& root, const std::map<int64_t, bool>& whole) {
  NXDKIT_CHECK(!whole.empty());
  const bool any_whole = std::ranges::any_of(whole, &std::pair<const int64_t, bool>::second);
  ChosenStep chosen;
  for (const auto& [step, is_whole] : whole)
    if (is_whole || !any_whole) chosen.step = step;
  const int64_t newest = chosen.step;
  Result<std::optional<RunTracker>> tracker = ReadRunTracker(root);
  if (!tracker.ok() && tracker.error().code() == Errc::kIo) return std::move(tracker).error();
  if (!tracker.ok())
    chosen.tracker_fault = tracker.error();
  else if (*tracker)
    chosen.tracker_fault = TrackerFault(**tracker, whole, any_whole);
  if (tracker.ok()) chosen.tracker = *tracker;
  const bool followed = chosen.tracker && !chosen.tracker_fault;
  if (followed) chosen.step = chosen.tracker->step;
  if (followed && newest > chosen.step)
    chosen.doubt = fmt::format("{} names {}, and {} is there too: the newer one is passed over",
                               chosen.tracker->file, StepFolder(chosen.step), StepFolder(newest));
  if (whole.size() > 1)
    chosen.choice = Choice{JoinPath(root, StepFolder(chosen.step)), whole.size(),
                           followed ? "tracker" : "number"};
  return chosen;
}

Result<RunCheckpoint> FindCheckpoint(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool itself, IsCheckpointItself(path, look));
  if (itself) return RunCheckpoint{path, {}, {}};
  if (StepOfFolder(BaseName(path))) {
    NXDKIT_ASSIGN(std::string actor, ActorIn(path, look));
    if (!actor.empty()) return RunCheckpoint{std::move(actor), {}, {}};
  }
  NXDKIT_ASSIGN(const auto actors, ActorsIn(path, look));
  if (actors.empty()) return RunCheckpoint{path, {}, {}};
  NXDKIT_ASSIGN(const ChosenStep chosen, ChooseRunStep(path, actors));
  NXDKIT_ASSIGN(std::string actor, ActorOf(path, chosen.step, look));
  return RunCheckpoint{std::move(actor), chosen.choice, chosen.Warnings()};
}

Result<std::optional<RunCheckpoint>> CheckpointNamed(const std::string& path, std::string_view tag,
                                                     const Looker& look) {
  const std::optional<int64_t> step = StepOfFolder(tag);
  if (!step) return std::optional<RunCheckpoint>();
  RunCheckpoint named;
  NXDKIT_ASSIGN(named.path, ActorOf(path, *step, look));
  if (named.path.empty()) return std::optional<RunCheckpoint>();
  NXDKIT_ASSIGN(const auto actors, ActorsIn(path, look));
  if (actors.size() > 1)
    named.choice = Choice{JoinPath(path, StepFolder(*step)), actors.size(), "option"};
  return std::optional(std::move(named));
}

}  // namespace nxdkit::kinds
