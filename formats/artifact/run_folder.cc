#include "formats/artifact/run_folder.h"

#include <map>
#include <utility>

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

std::optional<int64_t> TrackedStep(const std::string& root) {
  const std::string path = JoinPath(root, kRunTracker);
  if (KindOf(path) != PathKind::kFile) return std::nullopt;
  const Result<std::string> text = ReadSmallFile(path, kMaxTrackerBytes);
  const Result<Json> json = text.ok() ? ParseJson(*text) : Result<Json>(text.error());
  const Json* step = json.ok() ? JsonFind(*json, "last_global_step") : nullptr;
  if (!step || !step->is_number_unsigned()) return std::nullopt;
  return step->get<int64_t>();
}

bool IsFinished(const std::string& actor) {
  return KindOf(JoinPath(actor, "done")) == PathKind::kFile;
}

// Those of a run, by step.
std::map<int64_t, std::string> ActorsIn(const std::string& root) {
  std::map<int64_t, std::string> actors;
  const auto names = ListFolder(root);
  if (!names.ok()) return actors;
  for (const std::string& name : *names)
    if (const auto step = StepOfFolder(name))
      if (std::string actor = ActorOf(root, *step); KindOf(actor) == PathKind::kFolder)
        actors.emplace(*step, std::move(actor));
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

std::string CheckpointIn(const std::string& path) {
  if (IsCheckpointItself(path)) return path;
  if (StepOfFolder(BaseName(path)))
    if (std::string actor = JoinPath(path, kActorFolder); KindOf(actor) == PathKind::kFolder)
      return actor;
  const std::map<int64_t, std::string> actors = ActorsIn(path);
  if (actors.empty()) return path;
  const auto tracked = actors.find(TrackedStep(path).value_or(-1));
  if (tracked != actors.end() && IsFinished(tracked->second)) return tracked->second;
  for (auto actor = actors.rbegin(); actor != actors.rend(); ++actor)
    if (IsFinished(actor->second)) return actor->second;
  // Other trainers write no `done`.
  return tracked != actors.end() ? tracked->second : actors.rbegin()->second;
}

std::optional<std::string> CheckpointNamed(const std::string& path, std::string_view tag) {
  const std::optional<int64_t> step = StepOfFolder(tag);
  if (!step || KindOf(ActorOf(path, *step)) != PathKind::kFolder) return std::nullopt;
  return ActorOf(path, *step);
}

}  // namespace nxdkit::ops
