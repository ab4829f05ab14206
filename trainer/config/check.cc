#include "trainer/config/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/hf/hub_cache.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"
#include "trainer/config/check_algorithm.h"
#include "trainer/config/check_bundle.h"
#include "trainer/config/check_engine.h"
#include "trainer/config/check_plan.h"
#include "trainer/config/check_reward.h"
#include "trainer/config/checker.h"
#include "trainer/config/key_table.h"
#include "trainer/data/source.h"
#include "trainer/rollout/sampling.h"

namespace nxdkit::trainer {
namespace {

constexpr double kMostInteger = 2147483647;  // so that products of two fit

// The engine computes with floats.
bool IsTemperature(double x) {
  static_assert(kMinTemperature == 1e-3f);
  const float temperature = static_cast<float>(x);
  return temperature >= kMinTemperature && temperature < HUGE_VALF;
}

struct LimitRow {
  KeyLimit limit;
  bool (*holds)(double);
  const char* text;
};

constexpr LimitRow kLimits[] = {
    {KeyLimit::kPositive, [](double x) { return x > 0; }, "more than 0"},
    {KeyLimit::kNotNegative, [](double x) { return x >= 0; }, "0 or more"},
    {KeyLimit::kAboveOne, [](double x) { return x > 1; }, "more than 1"},
    {KeyLimit::kFraction, [](double x) { return x >= 0 && x <= 1; }, "from 0 to 1"},
    {KeyLimit::kInside, [](double x) { return x > 0 && x < 1; }, "between 0 and 1"},
    {KeyLimit::kBeta, [](double x) { return x >= 0 && x < 1; }, "at least 0 and less than 1"},
    {KeyLimit::kMass, [](double x) { return static_cast<float>(x) > 0 && x <= 1; },
     "more than 0 and at most 1"},
    {KeyLimit::kTemperature, IsTemperature, "from 0.001 to 3.4e38"},
    {KeyLimit::kTemperatureOrZero, [](double x) { return x == 0 || IsTemperature(x); },
     "0 (the most likely token) or from 0.001 to 3.4e38"},
    {KeyLimit::kSeconds, [](double x) { return x >= 1 && x <= 86400; }, "from 1 to 86400 (a day)"},
    {KeyLimit::kUnlimited, [](double x) { return x == -1 || x > 0; }, "-1 or more than 0"},
};

// The numbers in a slot; empty for other types and for null.
std::vector<double> Numbers(const ConfigSlot& slot, bool* integers) {
  *integers = true;
  if (const auto* value = std::get_if<int64_t*>(&slot)) return {static_cast<double>(**value)};
  if (const auto* value = std::get_if<std::optional<int64_t>*>(&slot))
    return **value ? std::vector<double>{static_cast<double>(***value)} : std::vector<double>{};
  *integers = false;
  if (const auto* value = std::get_if<double*>(&slot)) return {**value};
  if (const auto* value = std::get_if<std::optional<double>*>(&slot))
    return **value ? std::vector<double>{***value} : std::vector<double>{};
  if (const auto* value = std::get_if<std::array<double, 2>*>(&slot))
    return {(**value)[0], (**value)[1]};
  return {};
}

std::vector<std::string> Words(const ConfigSlot& slot) {
  if (const auto* value = std::get_if<std::string*>(&slot)) return {**value};
  if (const auto* value = std::get_if<std::optional<std::string>*>(&slot))
    return **value ? std::vector<std::string>{***value} : std::vector<std::string>{};
  if (const auto* value = std::get_if<std::vector<std::string>*>(&slot)) return **value;
  return {};
}

bool CheckLimit(Checker& check, const ConfigKey& key, const ConfigSlot& slot) {
  bool integers = false;
  bool good = true;
  for (const double number : Numbers(slot, &integers)) {
    const auto row = std::ranges::find(kLimits, key.limit, &LimitRow::limit);
    if (row != std::end(kLimits) && !row->holds(number)) {
      check.Problem(key.path, fmt::format("{} must be {}", number, row->text));
      good = false;
    } else if (integers && number > kMostInteger) {
      check.Problem(key.path, fmt::format("{} is over the limit of {}", number, kMostInteger));
      good = false;
    }
  }
  return good;
}

void CheckWords(Checker& check, const ConfigKey& key, const ConfigSlot& slot) {
  const std::vector<std::string> known = SplitWords(key.words);
  if (known.empty()) return;
  for (const std::string& word : Words(slot)) {
    if (std::ranges::find(known, word) != known.end()) continue;
    std::string message = fmt::format("\"{}\" is not known", EscapeControl(word));
    if (key.path == "algorithm.kl_penalty" && word == "full")
      message =
          "full needs the log-probabilities of the whole vocabulary; with those of the sampled "
          "tokens it sums over the wrong dimension";
    const auto near = ClosestWord(word, known);
    std::string fix = fmt::format("known: {}", fmt::join(known, ", "));
    if (near) fix = fmt::format("did you mean {}? {}", *near, fix);
    check.Problem(key.path, std::move(message), std::move(fix));
  }
}

void CheckUse(Checker& check, const ConfigKey& key, const ConfigSlot& slot,
              const ConfigSlot& built_in) {
  const std::string text = SlotText(slot);
  if (key.use == KeyUse::kOnly && text != key.words)
    check.Problem(key.path, fmt::format("{} is not supported: {}", text, key.text),
                  fmt::format("set it to {}", key.words), Errc::kUnsupported);
  const bool set = check.IsSet(key.path);
  if (key.use == KeyUse::kNoEffect && set && text != SlotText(built_in))
    check.Note(fmt::format("{} = {} has no effect: {}", key.path, text, key.text));
}

// False when a number is outside its limits, so that computing with it would be meaningless.
bool CheckTable(Checker& check) {
  Config config = check.config();
  Config defaults;
  bool good = true;
  for (const ConfigKey& key : ConfigKeys()) {
    const ConfigSlot slot = key.slot(config);
    good = CheckLimit(check, key, slot) && good;
    if (key.use == KeyUse::kUsed) CheckWords(check, key, slot);
    CheckUse(check, key, slot, key.slot(defaults));
  }
  return good;
}

// "PATH", "PATH@SPLIT", or "exec:COMMAND", which is not tried before it runs.
void CheckData(Checker& check, std::string_view key, const std::string& source) {
  if (source.empty())
    return check.Problem(key, "no data is named", "set it to PATH, PATH@SPLIT or exec:COMMAND");
  const Result<DataSource> parsed = ParseDataSource(source);
  if (!parsed.ok()) return check.Problem(key, parsed.error().message());
  if (parsed->is_command) return;
  const std::string& path = parsed->path;
  if (hf::IsHubName(path)) {
    const auto found = hf::FindInHubCache(hf::HubKind::kDataset, path);
    if (!found.ok())
      check.Problem(key, found.error().ToString(), found.error().hint(), Errc::kNotFound);
  } else if (const Result<bool> there = IsThere(path); !there.ok()) {
    check.Problem(key, EscapeControl(there.error().ToString()), "", there.error().code());
  } else if (!*there) {
    check.Problem(key, fmt::format("there is no file or folder {}", EscapeControl(path)), "",
                  Errc::kNotFound);
  }
}

// A folder, or the name of a model in the hub's cache.
void CheckModelPath(Checker& check, std::string_view key, const std::optional<std::string>& path) {
  const bool by_name = path && hf::IsHubName(*path);
  if (!by_name) CheckPath(check, key, path, PathKind::kFolder);
  if (!path || (!by_name && KindForHint(*path) != PathKind::kFolder)) return;
  const auto found =
      by_name ? hf::FindInHubCache(hf::HubKind::kModel, *path) : hf::SnapshotInside(*path);
  if (!found.ok())
    check.Problem(key, found.error().ToString(), found.error().hint(), Errc::kNotFound);
}

void CheckModelFolder(Checker& check, std::string_view section, const ModelSection& model) {
  const std::string key = fmt::format("{}.model_path", section);
  if (!model.model_path)
    return check.Problem(key, "no model is named", "set it to a Hugging Face folder");
  CheckModelPath(check, key, model.model_path);
  if (model.tokenizer_path != model.model_path)
    CheckModelPath(check, fmt::format("{}.tokenizer_path", section), model.tokenizer_path);
}

// Checks that the named files and folders exist.
void CheckFiles(Checker& check) {
  Config config = check.config();
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.limit != KeyLimit::kFile && key.limit != KeyLimit::kFolder) continue;
    const auto* path = std::get<std::optional<std::string>*>(key.slot(config));
    CheckPath(check, key.path, *path,
              key.limit == KeyLimit::kFile ? PathKind::kFile : PathKind::kFolder);
  }
  CheckData(check, "data.train_files", config.data.train_files);
  if (!config.data.val_files.empty()) CheckData(check, "data.val_files", config.data.val_files);
  CheckModelFolder(check, "worker.actor.model", config.worker.actor.model);
  if (NeedsCritic(config))
    CheckModelFolder(check, "worker.critic.model", config.worker.critic.model);
  CheckPath(check, "worker.rollout.model_path", config.worker.rollout.model_path,
            PathKind::kFolder);
}

}  // namespace

Status ConfigCheck::status() const {
  return problems.empty() ? OkStatus() : Status(ProblemsError(problems));
}

ConfigCheck CheckConfig(const LoadedConfig& loaded, const CheckOptions& options) {
  Checker check(loaded);
  ConfigCheck result;
  const bool in_limits = CheckTable(check);
  if (in_limits) {
    result.plan = MakeRunPlan(loaded.config);
    CheckCores(check, result.plan);
    CheckBatches(check, result.plan);
  }
  CheckAlgorithm(check);
  if (const auto& date = check.config().data.template_date; date && !MidnightOf(*date))
    check.Problem("data.template_date", fmt::format("{} is not a day", EscapeControl(*date)),
                  "such as: 2026-11-23");
  CheckReward(check);
  if (in_limits) CheckEngine(check);
  if (options.files) CheckFiles(check);
  result.problems = std::move(check.problems);
  const std::optional<std::string>& bundle = loaded.config.worker.rollout.model_path;
  // Anything else at that path was reported above.
  if (in_limits && options.files && bundle && KindForHint(*bundle) == PathKind::kFolder)
    for (ConfigProblem& problem : CheckBundle(loaded, *bundle))
      result.problems.push_back(std::move(problem));
  result.notes = std::move(check.notes);
  return result;
}

}  // namespace nxdkit::trainer
