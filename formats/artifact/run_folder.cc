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

Result<std::optional<int64_t>> TrackedStep(const std::string& root) {
  const std::string path = JoinPath(root, kRunTracker);
  NXDKIT_ASSIGN(const bool there, IsFile(path));
  if (!there) return std::optional<int64_t>();
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, kMaxTrackerBytes));
  const Result<Json> json = ParseJson(text);
  const Json* step = json.ok() ? JsonFind(*json, "last_global_step") : nullptr;
  if (!step || !step->is_number_unsigned()) return std::optional<int64_t>();
  return std::optional(step->get<int64_t>());
}

Result<bool> IsFinished(const std::string& actor) { return HasFile(actor, "done"); }

// Those of a run, by step.
Result<std::map<int64_t, std::string>> ActorsIn(const std::string& root) {
  std::map<int64_t, std::string> actors;
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListIfThere(root));
  for (const std::string& name : names) {
    const auto step = StepOfFolder(name);
    if (!step) continue;
    std::string actor = ActorOf(root, *step);
    NXDKIT_ASSIGN(const bool there, IsFolder(actor));
    if (there) actors.emplace(*step, std::move(actor));
  }
  return actors;
}

Result<bool> IsCheckpointItself(const std::string& path) {
  for (const char* name : {"config.json", "neuron_config.json"}) {
    NXDKIT_ASSIGN(const bool there, HasFile(path, name));
    if (there) return true;
  }
  return IsFolder(JoinPath(path, "model"));
}

}  // namespace

std::optional<int64_t> StepOfFolder(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const std::optional<int64_t> step = ParseNumber<int64_t>(name.substr(kStepPrefix.size()));
  return step && *step >= 0 ? step : std::nullopt;
}

std::string StepFolder(int64_t step) { return std::string(kStepPrefix) + std::to_string(step); }

Result<std::string> CheckpointIn(const std::string& path) {
  NXDKIT_ASSIGN(const bool itself, IsCheckpointItself(path));
  if (itself) return path;
  if (StepOfFolder(BaseName(path))) {
    std::string actor = JoinPath(path, kActorFolder);
    NXDKIT_ASSIGN(const bool there, IsFolder(actor));
    if (there) return actor;
  }
  NXDKIT_ASSIGN(const auto actors, ActorsIn(path));
  if (actors.empty()) return path;
  NXDKIT_ASSIGN(const std::optional<int64_t> step, TrackedStep(path));
  const auto tracked = actors.find(step.value_or(-1));
  if (tracked != actors.end()) {
    NXDKIT_ASSIGN(const bool finished, IsFinished(tracked->second));
    if (finished) return tracked->second;
  }
  for (auto actor = actors.rbegin(); actor != actors.rend(); ++actor) {
    NXDKIT_ASSIGN(const bool finished, IsFinished(actor->second));
    if (finished) return actor->second;
  }
  // Other trainers write no `done`.
  return tracked != actors.end() ? tracked->second : actors.rbegin()->second;
}

Result<std::optional<std::string>> CheckpointNamed(const std::string& path, std::string_view tag) {
  const std::optional<int64_t> step = StepOfFolder(tag);
  if (!step) return std::optional<std::string>();
  std::string actor = ActorOf(path, *step);
  NXDKIT_ASSIGN(const bool there, IsFolder(actor));
  return there ? std::optional(std::move(actor)) : std::nullopt;
}

}  // namespace nxdkit::ops
