#include "formats/artifact/run_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {
namespace {

constexpr uint64_t kMaxTrackerBytes = 1 << 20;

std::string ActorOf(const std::string& root, int64_t step) {
  return JoinPath(JoinPath(root, StepFolder(step)), kActorFolder);
}

bool IsFinished(const std::string& actor) {
  return KindOf(JoinPath(actor, "done")) == PathKind::kFile;
}

// Those of a run, by step: whether they are whole.
std::map<int64_t, bool> ActorsIn(const std::string& root) {
  std::map<int64_t, bool> actors;
  const auto names = ListFolder(root);
  if (!names.ok()) return actors;
  for (const std::string& name : *names)
    if (const auto step = StepOfFolder(name))
      if (const std::string actor = ActorOf(root, *step); KindOf(actor) == PathKind::kFolder)
        actors.emplace(*step, IsFinished(actor));
  return actors;
}

bool IsCheckpointItself(const std::string& path) {
  return KindOf(JoinPath(path, "config.json")) == PathKind::kFile ||
         KindOf(JoinPath(path, "neuron_config.json")) == PathKind::kFile ||
         KindOf(JoinPath(path, "model")) == PathKind::kFolder;
}

}  // namespace

std::optional<int64_t> StepOfFolder(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const std::optional<int64_t> step = ParseNumber<int64_t>(name.substr(kStepPrefix.size()));
  return step && *step >= 0 ? step : std::nullopt;
}

std::string StepFolder(int64_t step) { return std::string(kStepPrefix) + std::to_string(step); }

Result<std::optional<RunTracker>> ReadRunTracker(const std::string& root) {
  const std::string path = JoinPath(root, kRunTracker);
  if (KindOf(path) == PathKind::kMissing) return std::optional<RunTracker>();
  NXDKIT_ASSIGN(const Json json, ReadJsonFile(path, kMaxTrackerBytes));
  if (!json.is_object()) return Corrupt("found no object").in(path);
  constexpr const char* kStep = "last_global_step";
  const Result<int64_t> step = JsonInt(json, kStep);
  if (!step.ok()) return Error(step.error()).in(path);
  if (*step < 0)
    return Corrupt("found {}, expected 0 to {}", *step, INT64_MAX).in(path).member(kStep);
  RunTracker tracker{*step, std::nullopt, std::nullopt};
  const Json* best = JsonFind(json, "best_global_step");
  const Json* score = JsonFind(json, "best_val_reward_score");
  if (best && best->is_number_integer() && score && score->is_number()) {
    tracker.best_step = best->get<int64_t>();
    tracker.best_score = score->get<double>();
  }
  return std::optional(tracker);
}

namespace {

// Why the tracker is not followed.
std::optional<Error> TrackerFault(const std::string& root, const RunTracker& tracker,
                                  const std::map<int64_t, bool>& whole, bool any_whole) {
  const auto named = whole.find(tracker.step);
  const std::string path = JoinPath(root, kRunTracker);
  if (named == whole.end())
    return Corrupt("it names {}, which is gone", StepFolder(tracker.step)).in(path);
  if (any_whole && !named->second)
    return Corrupt("it names {}, which is not whole", StepFolder(tracker.step)).in(path);
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

ChosenStep ChooseRunStep(const std::string& root, const std::map<int64_t, bool>& whole) {
  NXDKIT_CHECK(!whole.empty());
  const bool any_whole = std::ranges::any_of(whole, &std::pair<const int64_t, bool>::second);
  ChosenStep chosen;
  for (const auto& [step, is_whole] : whole)
    if (is_whole || !any_whole) chosen.step = step;
  const int64_t newest = chosen.step;
  Result<std::optional<RunTracker>> tracker = ReadRunTracker(root);
  if (!tracker.ok())
    chosen.tracker_fault = std::move(tracker).error();
  else if (*tracker)
    chosen.tracker_fault = TrackerFault(root, **tracker, whole, any_whole);
  if (tracker.ok()) chosen.tracker = *tracker;
  const bool followed = chosen.tracker && !chosen.tracker_fault;
  if (followed) chosen.step = chosen.tracker->step;
  if (followed && newest > chosen.step)
    chosen.doubt =
        fmt::format("{} names {}, and {} is there too: the newer one is passed over",
                    JoinPath(root, kRunTracker), StepFolder(chosen.step), StepFolder(newest));
  if (whole.size() > 1)
    chosen.choice = Choice{JoinPath(root, StepFolder(chosen.step)), whole.size(),
                           followed ? "tracker" : "number"};
  return chosen;
}

RunCheckpoint FindCheckpoint(const std::string& path) {
  if (IsCheckpointItself(path)) return {path, {}, {}};
  if (StepOfFolder(BaseName(path)))
    if (std::string actor = JoinPath(path, kActorFolder); KindOf(actor) == PathKind::kFolder)
      return {actor, {}, {}};
  const std::map<int64_t, bool> actors = ActorsIn(path);
  if (actors.empty()) return {path, {}, {}};
  const ChosenStep chosen = ChooseRunStep(path, actors);
  return {ActorOf(path, chosen.step), chosen.choice, chosen.Warnings()};
}

std::string CheckpointIn(const std::string& path) { return FindCheckpoint(path).path; }

std::optional<RunCheckpoint> CheckpointNamed(const std::string& path, std::string_view tag) {
  const std::optional<int64_t> step = StepOfFolder(tag);
  if (!step || KindOf(ActorOf(path, *step)) != PathKind::kFolder) return std::nullopt;
  RunCheckpoint named{ActorOf(path, *step), {}, {}};
  if (const size_t steps = ActorsIn(path).size(); steps > 1)
    named.choice = Choice{JoinPath(path, StepFolder(*step)), steps, "option"};
  return named;
}

}  // namespace nxdkit::ops
