#include "formats/training/run_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "formats/nxd/shard_set.h"
#include "formats/torch/archive.h"
#include "formats/torch/encoder.h"
#include "formats/training/adam_options.h"
#include "formats/training/keep_params.h"
#include "formats/training/numbered_form.h"
#include "formats/training/state_keys.h"
#include "lib/json/json.h"
#include "lib/system/folders.h"

namespace nxdkit::training {
namespace {

using torch::PickleDict;
using torch::PickleList;
using torch::PickleValue;

constexpr uint64_t kMaxStateBytes = 64 << 20;
constexpr double kMostCounted = 9e15;  // F64 holds each whole number below
constexpr char kBaseRates[] = "base_lrs";

// The largest number of steps of any parameter.
Result<int64_t> StepsDone(const BoundArtifact& tag) {
  double most = 0;
  for (uint32_t i = 0; i < tag.optimizer->entries.size(); ++i)
    if (const OptimizerEntry* entry = tag.optimizer->Find(i, "step")) {
      NXDKIT_ASSIGN(const double step, ScalarOf(tag, *entry));
      most = std::max(most, step);
    }
  return static_cast<int64_t>(most);
}

std::optional<int64_t> CountIn(const PickleValue& value, std::string_view key) {
  const PickleValue* item = value.Find(key);
  const int64_t* number = item ? item->integer() : nullptr;
  return number && *number >= 0 ? std::optional(*number) : std::nullopt;
}

// A count stored in a file under a key, or a text about what is there instead; neither if there is
// no such key.
struct Count {
  std::optional<int64_t> number;
  std::string instead;
};

Result<Count> CountOfTensor(const StoredTensor& tensor) {
  if (!tensor.shape.empty()) return Count{{}, "a tensor of shape " + ShapeText(tensor.shape)};
  const Result<double> number = ReadScalar(tensor);
  if (!number.ok() && number.error().code() == Errc::kIo) return number.error();
  if (!number.ok()) return Count{{}, "a tensor that cannot be read: " + number.error().message()};
  if (*number >= 0 && *number < kMostCounted && *number == std::floor(*number))
    return Count{static_cast<int64_t>(*number), ""};
  return Count{{}, fmt::format("a tensor with {}", *number)};
}

Result<Count> CountAt(const torch::Archive& archive, std::string_view key) {
  const PickleValue* item = archive.root.Find(key);
  if (!item) return Count();
  if (const torch::TensorIndex* tensor = item->tensor();
      tensor && tensor->index < archive.tensors.size())
    return CountOfTensor(archive.tensors[tensor->index]);
  const std::optional<int64_t> number = CountIn(archive.root, key);
  return Count{number, number ? "" : OptionText(*item)};
}

class TagReader {
 public:
  explicit TagReader(const BoundArtifact& tag) : folder_(tag.artifact.folder) {}

  Result<RunProgress> Read(int64_t steps) {
    NXDKIT_TRY(ReadScheduler());
    NXDKIT_TRY(ReadUserContent());
    NXDKIT_TRY(ReadTrainerState());
    out_.step = step_.value_or(steps);
    out_.last_epoch = epoch_.value_or(steps);
    if (step_ && *step_ != steps)
      Note("{} is {}, the step of {}; the optimizer has made {}", kTrainStepKey, *step_, step_from_,
           steps);
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void Note(fmt::format_string<Args...> text, Args&&... args) {
    out_.notes.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  // The first of the folders that has the file: the tag's own, or the one around it.
  Result<std::string> Find(const char* name) const {
    for (const std::string& folder : {folder_, nxd::FolderAbove(folder_), ParentPath(folder_)}) {
      NXDKIT_ASSIGN(const bool there, HasFile(folder, name));
      if (there) return JoinPath(folder, name);
    }
    return std::string();
  }

  Result<std::optional<torch::Archive>> Read(const char* name) {
    NXDKIT_ASSIGN(const std::string path, Find(name));
    if (path.empty()) return std::optional<torch::Archive>();
    Result<torch::Archive> archive = torch::ReadArchive(path);
    if (archive.ok()) return std::optional(*std::move(archive));
    if (archive.error().code() == Errc::kIo) return std::move(archive).error();
    Note("{} cannot be read, so its record of the run is not known: {}", name,
         archive.error().message());
    return std::optional<torch::Archive>();
  }

  // The count, with a note if there is something else.
  Result<std::optional<int64_t>> Take(const torch::Archive& archive, const char* key,
                                      const char* file) {
    NXDKIT_ASSIGN(const Count count, CountAt(archive, key));
    if (!count.instead.empty())
      Note("{} of {} is {}, which is not a count, and is not read", key, file, count.instead);
    return count.number;
  }

  Status ReadScheduler() {
    NXDKIT_ASSIGN(const std::optional<torch::Archive> file, Read(kSchedulerFile));
    if (!file) return OkStatus();
    NXDKIT_ASSIGN(epoch_, Take(*file, "last_epoch", kSchedulerFile));
    if (!file->root.Find("last_epoch")) Note("{} has no last_epoch", kSchedulerFile);
    return OkStatus();
  }

  Status ReadUserContent() {
    NXDKIT_ASSIGN(const std::optional<torch::Archive> file, Read(kUserContentFile));
    if (!file) return OkStatus();
    if (!file->root.dict()) {
      Note("{} is not a dict, so its record of the run is not known", kUserContentFile);
      return OkStatus();
    }
    NXDKIT_ASSIGN(const auto step, Take(*file, "global_step", kUserContentFile));
    TakeStep(step, kUserContentFile);
    NXDKIT_ASSIGN(const auto samples, Take(*file, "consumed_samples", kUserContentFile));
    if (samples) Note("{} counts {} samples, not tokens", kUserContentFile, *samples);
    return OkStatus();
  }

  // Reads the file of optimum-neuron and of transformers ("global_step"), or of grpo-train
  // ("step").
  Status ReadTrainerState() {
    NXDKIT_ASSIGN(const std::string path, Find(kTrainerStateFile));
    if (path.empty()) return OkStatus();
    const Result<Json> state = ReadJsonFile(path, kMaxStateBytes);
    if (!state.ok() && state.error().code() == Errc::kIo) return state.error();
    if (!state.ok() || !state->is_object()) {
      Note("{} cannot be read: {}", kTrainerStateFile,
           state.ok() ? "it is not an object" : state.error().message());
      return OkStatus();
    }
    const auto count = [&](const char* key) -> std::optional<int64_t> {
      const Result<int64_t> number = JsonInt(*state, key);
      return number.ok() && *number >= 0 ? std::optional(*number) : std::nullopt;
    };
    TakeStep(count("global_step"), kTrainerStateFile);
    TakeStep(count("step"), kTrainerStateFile);
    if (!epoch_) epoch_ = count("schedule_steps");
    if (const auto tokens = count("num_input_tokens_seen"); tokens && *tokens > 0)
      out_.tokens = tokens;
    return OkStatus();
  }

  void TakeStep(std::optional<int64_t> step, const char* from) {
    if (step_ || !step) return;
    step_ = step;
    step_from_ = from;
  }

  const std::string& folder_;
  RunProgress out_;
  std::optional<int64_t> step_, epoch_;
  std::string step_from_;
};

// The checkpoint's value under the key; nullopt if it has no such object.
Result<std::optional<PickleValue>> ReadIfThere(const RunObjects& objects, std::string_view key) {
  const std::vector<std::string> keys = objects.Keys();
  if (std::ranges::find(keys, key) == keys.end()) return std::optional<PickleValue>();
  NXDKIT_ASSIGN(PickleValue value, objects.Read(key));
  return std::optional(std::move(value));
}

void AddIfNone(PickleDict& dict, const char* key, PickleValue value) {
  if (!SaidIn(dict, key)) dict.push_back({{std::string(key)}, std::move(value)});
}

// The values of the objects under "lr_scheduler.", by their names there.
Result<PickleDict> ScheduleIn(const RunObjects& objects) {
  PickleDict state;
  for (const std::string& key : objects.Keys()) {
    if (!key.starts_with(kScheduler)) continue;
    const std::string name = key.substr(kScheduler.size());
    if (name.find('.') != std::string::npos) continue;  // of a lambda that is an object
    NXDKIT_ASSIGN(PickleValue value, objects.Read(key));
    state.push_back({{name}, std::move(value)});
  }
  return state;
}

// With the record of the tag's form there was no training since: the files next to the checkpoint
// are the tag's own, and missing ones were missing there.
bool IsAsMade(const BoundArtifact& checkpoint) {
  return checkpoint.optimizer && checkpoint.optimizer->form;
}

bool IsOfLambdaLr(std::string_view name) {
  static const BoundOptimizer kOfNothing;
  return name == kBaseRates ||
         std::ranges::any_of(ScheduleAt(kOfNothing, 0),
                             [&](const auto& item) { return *item.first.string() == name; });
}

// Whether the tag has the object's value, or another note reports its loss.
bool IsTold(std::string_view key, bool as_made, bool has_schedule, bool has_state) {
  if (key.starts_with(kOptimizerState) || key.starts_with(kOptimizerGroups)) return true;
  if (key == kNumberedFormKey) return true;
  if (key == kTrainStepKey || key == kTokensSeenKey) return has_state;
  if (key.starts_with("dataloader.")) return true;
  if (as_made) return key.starts_with(kScheduler) && IsOfLambdaLr(key.substr(kScheduler.size()));
  const bool is_plain = key.find('.', kScheduler.size()) == std::string_view::npos;
  return has_schedule && key.starts_with(kScheduler) && is_plain;
}

void NameOthers(const BoundArtifact& checkpoint, bool has_schedule,
                std::vector<std::string>& losses) {
  const bool as_made = IsAsMade(checkpoint);
  const std::vector<std::string> keys = checkpoint.objects->Keys();
  for (const std::string& key : keys)
    if (!IsTold(key, as_made, has_schedule, checkpoint.optimizer.has_value()))
      losses.push_back(fmt::format("{} has no counterpart in a tag", key));
  if (std::ranges::any_of(keys, [](const auto& key) { return key.starts_with("dataloader."); }))
    losses.push_back("the data loader's state has no counterpart in a tag");
  std::map<std::string, size_t> wrapped;
  for (const RunTensor& tensor : checkpoint.run)
    if (!tensor.wrapper.empty())
      ++wrapped[tensor.wrapper];
    else if (!tensor.key.starts_with(kOptimizerGroups))
      losses.push_back(fmt::format("{} has no counterpart in a tag", tensor.key));
  for (const auto& [wrapper, count] : wrapped)
    losses.push_back(
        fmt::format("a second set of weights, {} tensors under {}, has no counterpart in a tag",
                    count, wrapper));
}

// Options of untrained parameters are the optimizer's defaults for a step to come.
void NameOptions(const BoundArtifact& checkpoint, std::vector<std::string>& losses) {
  size_t options = 0;
  for (const std::string& key : checkpoint.run_objects)
    options += key.starts_with(kOptimizerGroups);
  for (const RunTensor& tensor : checkpoint.run)
    options += tensor.key.starts_with(kOptimizerGroups);
  if (options > 0)
    losses.push_back(fmt::format(
        "no parameter has state, so {} options of the optimizer (param_groups) are left out",
        options));
}

// The step in the checkpoint's objects, or the one that its optimizer has counted.
Result<int64_t> StepOfCheckpoint(const BoundArtifact& checkpoint) {
  NXDKIT_ASSIGN(const auto value, ReadIfThere(*checkpoint.objects, kTrainStepKey));
  const int64_t* const step = value ? value->integer() : nullptr;
  return step ? Result<int64_t>(*step) : StepsDone(checkpoint);
}

UserContent LeftOut(const std::string& why) {
  UserContent out;
  out.kept = UserContent::Kept::kNot;
  out.note = fmt::format("{} next to the checkpoint is left out: {}", kUserContentFile, why);
  return out;
}

// The file's root, with its steps replaced by `step`.
UserContent WithStep(PickleValue root, int64_t step) {
  UserContent out;
  std::vector<std::string> said;
  bool is_other = false;
  for (auto& [key, value] : *std::get<PickleValue::Dict>(root.value).items) {
    if (!key.string() || (*key.string() != "global_step" && *key.string() != "step")) continue;
    if (!value.integer())
      return LeftOut(
          fmt::format("its {} is {}, which is not a count", *key.string(), OptionText(value)));
    said.push_back(fmt::format("{} {}", *key.string(), *value.integer()));
    is_other |= *value.integer() != step;
    value = {step};
  }
  if (said.empty()) return LeftOut("it may be of another step, since it has no global_step");
  if (!is_other) return out;
  out.note = fmt::format("{} next to the checkpoint is of another step ({}): step {} is written",
                         kUserContentFile, fmt::join(said, ", "), step);
  if (const PickleValue* samples = root.Find("consumed_samples"))
    out.note += fmt::format("; its consumed_samples, {}, stays", OptionText(*samples));
  out.kept = UserContent::Kept::kMade;
  out.made = std::move(root);
  return out;
}

}  // namespace

Result<RunProgress> ProgressOfTag(const BoundArtifact& tag) {
  NXDKIT_ASSIGN(const int64_t steps, StepsDone(tag));
  if (!tag.artifact.folder.empty()) return TagReader(tag).Read(steps);
  RunProgress progress;
  progress.step = progress.last_epoch = steps;
  return progress;
}

Result<RunProgress> ProgressOfCheckpoint(const BoundArtifact& checkpoint) {
  RunProgress progress;
  NXDKIT_ASSIGN(progress.step, StepOfCheckpoint(checkpoint));
  NXDKIT_ASSIGN(const auto epoch, ReadIfThere(*checkpoint.objects, kLastEpochKey));
  const int64_t* const last = epoch ? epoch->integer() : nullptr;
  progress.last_epoch = last ? *last : progress.step;
  if (!last)
    progress.notes.push_back(
        fmt::format("{} is not known: the step, {}, is written", kLastEpochKey, progress.step));
  NXDKIT_ASSIGN(const auto tokens, ReadIfThere(*checkpoint.objects, kTokensSeenKey));
  if (const int64_t* number = tokens ? tokens->integer() : nullptr) progress.tokens = *number;
  return progress;
}

Result<PickleDict> ScheduleOfCheckpoint(const BoundArtifact& checkpoint, int64_t last_epoch) {
  NXDKIT_ASSIGN(PickleDict state, ScheduleIn(*checkpoint.objects));
  const PickleValue said = PickleValue::MakeDict(state);
  for (auto& [name, value] : ScheduleAt(*checkpoint.optimizer, last_epoch))
    if (!said.Find(*name.string())) state.push_back({std::move(name), std::move(value)});
  return state;
}

PickleDict ScheduleAt(const BoundOptimizer& optimizer, int64_t last_epoch,
                      std::optional<size_t> only) {
  PickleList began;
  PickleList rates;
  PickleList lambdas;
  for (size_t g = 0; g < optimizer.groups.size(); ++g) {
    if (only && g != *only) continue;
    const PickleDict& group = optimizer.groups[g];
    const PickleValue whole = PickleValue::MakeDict(group);
    if (const PickleValue* rate = whole.Find(kInitialRate)) began.push_back(*rate);
    rates.push_back(OptionOf(group, *FindAdamOption("lr")));
    lambdas.push_back({PickleValue::None{}});
  }
  const bool known = !began.empty() && began.size() == rates.size();
  PickleDict state;
  const auto add = [&](const char* name, PickleValue value) {
    state.push_back({{std::string(name)}, std::move(value)});
  };
  if (known) add(kBaseRates, PickleValue::MakeList(std::move(began)));
  add("last_epoch", {last_epoch});
  add("_step_count", {last_epoch + 1});
  for (const char* flag : {"verbose", "_is_initial", "_get_lr_called_within_step"})
    add(flag, {false});
  add("_last_lr", PickleValue::MakeList(std::move(rates)));
  add("lr_lambdas", PickleValue::MakeList(std::move(lambdas)));
  return state;
}

Result<std::optional<PickleValue>> SchedulerOf(const BoundArtifact& checkpoint) {
  using Scheduler = std::optional<PickleValue>;
  if (!checkpoint.objects || !checkpoint.optimizer || IsAsMade(checkpoint)) return Scheduler();
  NXDKIT_ASSIGN(PickleDict state, ScheduleIn(*checkpoint.objects));
  const std::optional<int64_t> epoch = CountIn(PickleValue::MakeDict(state), "last_epoch");
  if (!epoch) return Scheduler();
  PickleList rates;
  PickleList lambdas;
  for (const PickleDict& group : checkpoint.optimizer->groups) {
    const PickleValue whole = PickleValue::MakeDict(group);
    if (const PickleValue* rate = whole.Find("lr")) rates.push_back(*rate);
    lambdas.push_back({PickleValue::None{}});
  }
  AddIfNone(state, "_step_count", {*epoch + 1});
  AddIfNone(state, "_last_lr", PickleValue::MakeList(std::move(rates)));
  AddIfNone(state, "lr_lambdas", PickleValue::MakeList(std::move(lambdas)));
  return Scheduler(PickleValue::MakeDict(std::move(state)));
}

Result<UserContent> UserContentOf(const BoundArtifact& checkpoint) {
  if (!checkpoint.objects || !checkpoint.optimizer || IsAsMade(checkpoint)) return UserContent();
  const std::string path = JoinPath(checkpoint.objects->path(), kUserContentFile);
  NXDKIT_ASSIGN(const bool there, IsFile(path));
  if (!there) return UserContent();
  NXDKIT_ASSIGN(const int64_t step, StepOfCheckpoint(checkpoint));
  Result<torch::Archive> archive = torch::ReadArchive(path);
  if (!archive.ok() && archive.error().code() == Errc::kIo) return std::move(archive).error();
  if (!archive.ok()) return LeftOut("it cannot be read: " + archive.error().message());
  if (!archive->root.dict()) return LeftOut("it is not a dict that could have a step");
  UserContent content = WithStep(std::move(archive->root), step);
  if (content.kept != UserContent::Kept::kMade) return content;
  if (const Result<std::string> made = torch::EncodeObject(content.made); !made.ok())
    return LeftOut("it is of another step, and holds more than plain values");
  return content;
}

Result<std::vector<std::string>> LossesOfRun(const BoundArtifact& checkpoint) {
  std::vector<std::string> losses;
  if (!checkpoint.optimizer) NameOptions(checkpoint, losses);
  if (!checkpoint.optimizer || IsAsMade(checkpoint)) {
    NameOthers(checkpoint, false, losses);
    return losses;
  }
  const std::string& folder = checkpoint.objects->path();
  NXDKIT_ASSIGN(const auto scheduler, SchedulerOf(checkpoint));
  NXDKIT_ASSIGN(const bool has_scheduler_file, HasFile(folder, kSchedulerFile));
  NXDKIT_ASSIGN(const bool has_content_file, HasFile(folder, kUserContentFile));
  if (scheduler)
    losses.push_back(
        fmt::format("{} is made from {} and the learning rates: a schedule has its own numbers "
                    "besides these, such as base_lrs, from the program",
                    kSchedulerFile, kLastEpochKey));
  else if (!has_scheduler_file)
    losses.push_back(
        fmt::format("there is no {}, so no {} is made", kLastEpochKey, kSchedulerFile));
  else
    losses.push_back(
        fmt::format("there is no {}: {} next to the checkpoint is copied, whatever its step",
                    kLastEpochKey, kSchedulerFile));
  NXDKIT_ASSIGN(const UserContent content, UserContentOf(checkpoint));
  if (!content.note.empty()) losses.push_back(content.note);
  const bool has_step = content.kept != UserContent::Kept::kNot && has_content_file;
  for (const char* key : {kTrainStepKey, kTokensSeenKey}) {
    if (has_step && key == std::string_view(kTrainStepKey)) continue;
    NXDKIT_ASSIGN(const auto value, ReadIfThere(*checkpoint.objects, key));
    if (const int64_t* number = value ? value->integer() : nullptr)
      losses.push_back(fmt::format("{} is {}, for which a tag has no place", key, *number));
  }
  NameOthers(checkpoint, scheduler.has_value(), losses);
  return losses;
}

}  // namespace nxdkit::training
