#include "trainer/config/merger.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/choice.h"
#include "lib/base/text.h"
#include "lib/tensor/dtype.h"
#include "lib/yaml/yaml.h"
#include "trainer/config/old_names.h"

namespace nxdkit::trainer {
namespace {

constexpr std::string_view kUseKl = "algorithm.use_kl_loss";
constexpr std::string_view kKlCoef = "algorithm.kl_coef";
constexpr std::string_view kKlPenalty = "algorithm.kl_penalty";
constexpr std::string_view kRewardFunction = "worker.reward.reward_function";
constexpr std::string_view kOldUseKl = "worker.actor.use_kl_loss";
constexpr std::string_view kOldKlCoef = "worker.actor.kl_loss_coef";
constexpr std::string_view kOldKlType = "worker.actor.kl_loss_type";

constexpr std::string_view kOldValFreq = "trainer.test_freq";

bool IsOfKlLoss(std::string_view path) {
  return path == kOldUseKl || path == kOldKlCoef || path == kOldKlType;
}

std::string Join(std::string_view prefix, std::string_view name) {
  return prefix.empty() ? std::string(name) : fmt::format("{}.{}", prefix, name);
}

// All keys and all groups that contain them.
std::vector<std::string> KeysAndGroups() {
  std::vector<std::string> paths;
  for (const ConfigKey& key : ConfigKeys())
    for (std::string_view path = key.path; !path.empty(); path = ParentKey(path))
      if (std::ranges::find(paths, path) == paths.end()) paths.emplace_back(path);
  return paths;
}

// A misspelt key of the same group, else the same key in another group, else any similar key.
std::string NearestKey(std::string_view path) {
  const std::vector<std::string> all = KeysAndGroups();
  std::vector<std::string> siblings;
  for (const std::string& other : all)
    if (ParentKey(other) == ParentKey(path)) siblings.emplace_back(LastKey(other));
  if (const auto near = ClosestWord(LastKey(path), siblings)) return Join(ParentKey(path), *near);
  for (const std::string& other : all)
    if (other.ends_with("." + std::string(path))) return other;
  for (const std::string& other : all)
    if (LastKey(other) == LastKey(path)) return other;
  const std::string near = ClosestWord(path, all).value_or("");
  return EditDistance(path, near) <= 3 ? near : "";
}

bool IsNearKeyOf(const ConfigKey& group, std::string_view leaf) {
  std::vector<std::string> names;
  for (const ConfigKey& key : ConfigKeys())
    if (ParentKey(key.path) == group.path) names.emplace_back(LastKey(key.path));
  const auto near = ClosestWord(leaf, names);
  return near && EditDistance(*near, leaf) <= 2;
}

void NameDtype(const ConfigKey& key, const ConfigSlot& slot) {
  const std::vector<std::string> words = SplitWords(key.words);
  if (auto* const* text = std::get_if<std::string*>(&slot)) **text = WordOfDtype(**text, words);
  if (auto* const* text = std::get_if<std::optional<std::string>*>(&slot); text && **text)
    **text = WordOfDtype(***text, words);
}

bool IsOf(const std::vector<Said>& old, std::string_view path) {
  return std::ranges::find(old, path, &Said::path) != old.end();
}

// Whether there are keys of EasyR1's first release and none of later ones.
bool IsOfFirstRelease(const std::vector<Said>& old) {
  if (IsOf(old, "trainer.total_episodes") && IsOf(old, "worker.reward.compute_score")) return true;
  return std::ranges::any_of(old, [](const Said& said) {
    return said.path == kOldKlCoef || said.path == kOldKlType || said.path == kOldValFreq ||
           said.path.ends_with(".offload.param_offload");
  });
}

// A default of the first releases that has changed since.
struct OldDefault {
  std::string_view path;
  std::string_view then;
  bool in_february = false;  // until 5 March 2025, like the key of validation
};
constexpr OldDefault kOldDefaults[] = {
    {"worker.actor.entropy_coeff", "0.001 of the entropy in the loss"},
    {"worker.actor.clip_ratio_high", "clip_ratio_high 0.2"},
    {"worker.actor.clip_ratio_dual", "no clip_ratio_dual"},
    {"algorithm.adv_estimator", "adv_estimator gae", true},
    {"trainer.total_epochs", "total_epochs 10", true},
    {"data.system_prompt", "a system message that asks for steps and a boxed answer", true},
};

// The function's name in FILE:NAME; "" if there is none.
std::string_view NameInFunction(std::string_view function) {
  const size_t colon = function.rfind(':');
  const size_t slash = function.rfind('/');
  const bool has_one = colon != function.npos && (slash == function.npos || colon > slash);
  return has_one ? function.substr(colon + 1) : "";
}

}  // namespace

std::string_view ParentKey(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? "" : path.substr(0, dot);
}

std::string_view LastKey(std::string_view path) { return path.substr(path.rfind('.') + 1); }

void Merger::Apply(const Said& said) {
  override_ = said.override_text;
  ApplyAt(said.path, said.value, said.place);
}

void Merger::Refuse(const Said& said, std::string message, std::string fix) {
  override_ = said.override_text;
  if (!said.path.empty()) refused_.push_back(said.path);
  Problem(said.path, said.place, std::move(message), std::move(fix));
}

void Merger::Finish() {
  const bool is_first_release =
      IsOfFirstRelease(old_) ||
      (IsOf(old_, kOldUseKl) && loaded_.SourceOf(kUseKl).kind == SourceKind::kDefault);
  TakeKlLoss();
  const std::optional<Said> score_name = TakeOut("worker.reward.score_function_name");
  const std::optional<Said> reward_name = TakeOut("worker.reward.reward_function_name");
  for (const Said& said : old_) TakeOld(said);
  if (score_name) TakeRewardName(*score_name);
  if (reward_name) TakeRewardName(*reward_name);
  if (!taken_.empty())
    loaded_.notes.push_back(fmt::format(
        "names of EasyR1's earlier releases are read as today's: {}", fmt::join(taken_, ", ")));
  if (!gone_.empty())
    loaded_.notes.push_back(
        fmt::format("keys of EasyR1's earlier releases, or that it computes, have no effect here "
                    "and can be removed: {}",
                    fmt::join(gone_, ", ")));
  if (is_first_release) NoteFirstRelease();
  FoldUnknown();
}

// Applies the value of `path`, a key or a group; "" is the root. `where` is the place of the key.
void Merger::ApplyAt(const std::string& path, const Value& value, const Place& where) {
  if (std::ranges::find(refused_, path) != refused_.end()) return;
  const ConfigKey* key = FindConfigKey(path);
  const bool group = path.empty() || IsConfigGroup(path) || IsOldGroup(path);
  if (!group && key != nullptr) return Set(*key, value, where);
  if (!group) return Unknown(path, value, where);
  if (value.kind != ValueKind::kMap)
    return Problem(path, where, fmt::format("expected a map, found {}", ValueKindText(value.kind)));
  for (const ValueEntry& entry : value.entries)
    ApplyAt(Join(path, entry.key), entry.value, entry.place);
}

void Merger::Problem(const std::string& path, const Place& where, std::string message,
                     std::string fix) {
  std::string place = PlaceText(where);
  if (!override_.empty())
    place = "command line: " + EscapeControl(override_);
  else if (!loaded_.path.empty())
    place = place.empty() ? loaded_.path : loaded_.path + " " + place;
  problems_.push_back(
      {Errc::kUsage, EscapeControl(path), std::move(message), std::move(fix), std::move(place)});
}

void Merger::Set(const ConfigKey& key, const Value& value, const Place& where) {
  const ConfigSlot slot = key.slot(loaded_.config);
  std::string wrong = AssignSlot(slot, value);
  if (!wrong.empty()) return Problem(std::string(key.path), where, std::move(wrong));
  if (key.limit == KeyLimit::kDtype) NameDtype(key, slot);
  ConfigSource& source = loaded_.sources[static_cast<size_t>(&key - ConfigKeys().data())];
  source.kind = override_.empty() ? SourceKind::kFile : SourceKind::kOverride;
  source.place = where;
  source.override_text = override_;
}

// Handles a key outside the table: an older name, a key that only the program sets, part of an open
// map, or a mistake.
void Merger::Unknown(const std::string& path, const Value& value, const Place& where) {
  if (FindOldName(path) != nullptr || IsOfKlLoss(path) || !DerivedFrom(path).empty()) {
    std::erase_if(old_, [&](const Said& said) { return said.path == path; });
    old_.push_back({path, value, where, override_});
    return;
  }
  if (SetInOpenMap(path, value, where)) return;
  const std::string near = NearestKey(path);
  if (near.empty()) unknown_.push_back(problems_.size());
  Problem(path, where, "there is no such key",
          near.empty() ? "" : fmt::format("did you mean {}?", near));
}

bool Merger::SetInOpenMap(const std::string& path, const Value& value, const Place& where) {
  Value inner = value;
  for (std::string_view at = path; !ParentKey(at).empty(); at = ParentKey(at)) {
    Value outer = Value::Map();
    outer.entries.push_back({std::string(LastKey(at)), where, inner});
    inner = std::move(outer);
    const ConfigKey* key = FindConfigKey(ParentKey(at));
    if (key == nullptr) continue;
    if (!std::holds_alternative<Value*>(key->slot(loaded_.config))) return false;
    // A misspelt key in a group that accepts other keys is still a mistake.
    if (IsConfigGroup(key->path) && IsNearKeyOf(*key, LastKey(at))) return false;
    Set(*key, inner, where);
    return true;
  }
  return false;
}

// The configuration of a program derived from EasyR1 has many.
void Merger::FoldUnknown() {
  constexpr size_t kShown = 3;
  if (unknown_.size() <= kShown) return;
  std::vector<std::string> names;
  for (const size_t at : unknown_) names.push_back(problems_[at].key);
  ConfigProblem all = problems_[unknown_.front()];
  all.key.clear();
  all.message = fmt::format("{} keys are not known: {}", names.size(), FirstNames(names, kShown));
  all.fix =
      "they may belong to a program derived from EasyR1, whose additions are not supported "
      "here";
  for (auto at = unknown_.rbegin(); at != unknown_.rend(); ++at)
    problems_.erase(problems_.begin() + static_cast<ptrdiff_t>(*at));
  problems_.push_back(std::move(all));
}

void Merger::TakeOld(const Said& said) {
  override_ = said.override_text;
  const OldName* row = FindOldName(said.path);
  if (row == nullptr) return CheckDerived(said);
  if (row->becomes.empty()) {
    if (IsDroppable(*row, said.value)) return gone_.push_back(said.path);
    return Problem(said.path, said.place,
                   fmt::format("EasyR1 no longer has this key, and the run would differ from the "
                               "one that {} asks for",
                               EscapeControl(ValueText(said.value))),
                   std::string(row->advice));
  }
  std::vector<std::string> as;
  for (const std::string& name : SplitWords(row->becomes))
    if (TakeAs(said, *FindConfigKey(name), said.value)) as.push_back(name);
  if (!as.empty()) taken_.push_back(fmt::format("{} as {}", said.path, fmt::join(as, " and ")));
}

// FILE and NAME used to be two keys, and are in a dump.
void Merger::TakeRewardName(const Said& said) {
  override_ = said.override_text;
  std::optional<std::string>& function = loaded_.config.worker.reward.reward_function;
  const bool says_none = said.value.kind == ValueKind::kNull;
  const bool is_outvoted =
      loaded_.SourceOf(kRewardFunction).kind == SourceKind::kOverride && override_.empty();
  if (says_none || is_outvoted || (function && NameInFunction(*function) == said.value.text))
    return gone_.push_back(said.path);
  if (!function || !NameInFunction(*function).empty() || said.value.kind != ValueKind::kString)
    return Problem(said.path, said.place,
                   fmt::format("{} is {}", kRewardFunction, function.value_or("not set")),
                   std::string(FindOldName(said.path)->advice));
  *function += ":" + said.value.text;
  taken_.push_back(
      fmt::format("{} as {}={}", said.path, kRewardFunction, EscapeControl(*function)));
}

// The defaults for keys that such a file leaves out were different then.
void Merger::NoteFirstRelease() {
  const bool is_of_february = IsOf(old_, kOldValFreq);
  std::vector<std::string> others;
  for (const OldDefault& row : kOldDefaults) {
    const bool is_said =
        IsOf(old_, row.path) || loaded_.SourceOf(row.path).kind != SourceKind::kDefault;
    if (is_said || (row.in_february && !is_of_february)) continue;
    const ConfigKey* key = FindConfigKey(row.path);
    const std::string here = key == nullptr ? "none" : SlotText(key->slot(loaded_.config));
    others.push_back(fmt::format("{} (here {})", row.then, here));
  }
  if (others.empty()) return;
  loaded_.notes.push_back(
      fmt::format("this is of EasyR1's first releases; where nothing is said, there was then: {}",
                  fmt::join(others, ", ")));
}

// Whether the value becomes that of `key`. An override of either name wins over the file; values
// from the same source have to agree.
bool Merger::TakeAs(const Said& said, const ConfigKey& key, const Value& value) {
  const SourceKind source = loaded_.SourceOf(key.path).kind;
  const bool is_override = !said.override_text.empty();
  if (source == SourceKind::kOverride && !is_override) return false;
  if (source == SourceKind::kDefault || (source == SourceKind::kFile && is_override)) {
    const size_t before = problems_.size();
    Set(key, value, said.place);
    return problems_.size() == before;
  }
  Config copy = loaded_.config;
  const std::string is = SlotText(key.slot(copy));
  const ConfigSlot slot = key.slot(copy);
  if (!AssignSlot(slot, value).empty() || SlotText(slot) != is)
    Problem(said.path, said.place,
            fmt::format("this is {} in today's EasyR1, which is {} ({})", key.path, is,
                        loaded_.PlaceOf(key.path)),
            "leave one of them out");
  return false;
}

// A dump of EasyR1's configuration contains these keys, derived from others.
void Merger::CheckDerived(const Said& said) {
  const std::string_view from = DerivedFrom(said.path);
  const bool is_outvoted =
      loaded_.SourceOf(from).kind == SourceKind::kOverride && said.override_text.empty();
  if (is_outvoted) return;
  Config copy = loaded_.config;
  const ConfigSlot slot = FindConfigKey(from)->slot(copy);
  const std::string is = SlotText(slot);
  const bool follows = AssignSlot(slot, said.value).empty() && SlotText(slot) == is;
  const bool is_unset = said.value.kind == ValueKind::kInt && said.value.integer == -1;
  if (follows || is_unset) return;
  Problem(said.path, said.place, "this key is derived and cannot be set",
          fmt::format("set {}", from));
}

std::optional<Said> Merger::TakeOut(std::string_view path) {
  const auto found = std::ranges::find(old_, path, &Said::path);
  if (found == old_.end()) return std::nullopt;
  Said said = std::move(*found);
  old_.erase(found);
  return said;
}

bool Merger::IsOn(std::string_view key) {
  return SlotText(FindConfigKey(key)->slot(loaded_.config)) == "true";
}

// Until March 2025 the KL of the loss had its own weight and estimator, and was on by default;
// algorithm.kl_coef and kl_penalty belonged to the KL in the reward, which it replaced.
void Merger::TakeKlLoss() {
  const bool says_more = std::ranges::any_of(
      old_, [](const Said& said) { return said.path == kOldKlCoef || said.path == kOldKlType; });
  if (!says_more && loaded_.SourceOf(kUseKl).kind != SourceKind::kDefault) return;  // from a dump
  const std::optional<Said> use = TakeOut(kOldUseKl);
  const std::optional<Said> coef = TakeOut(kOldKlCoef);
  const std::optional<Said> type = TakeOut(kOldKlType);
  if (!use && !coef && !type) return;
  const Said& first = use ? *use : coef ? *coef : *type;
  override_ = first.override_text;
  const Value on = use ? use->value : ResolveScalar("true");
  const bool is_todays = loaded_.SourceOf(kUseKl).kind == SourceKind::kFile;
  const bool taken = TakeAs(first, *FindConfigKey(kUseKl), on);
  if (IsOn(kUseKl) && is_todays) {
    // Together with today's switch, today's names apply to the loss too.
    if (coef) TakeToday(*coef, kKlCoef);
    if (type) TakeToday(*type, kKlPenalty);
    return;
  }
  if (IsOn(kUseKl)) return TakeKlOfLoss(first, use, coef, type);
  if (taken) taken_.push_back(fmt::format("{} as {}", kOldUseKl, kUseKl));
  for (const std::optional<Said>* said : {&coef, &type})
    if (*said) gone_.push_back((*said)->path);
}

void Merger::TakeToday(const Said& said, std::string_view key) {
  override_ = said.override_text;
  if (TakeAs(said, *FindConfigKey(key), said.value))
    taken_.push_back(fmt::format("{} as {}", said.path, key));
}

void Merger::TakeKlOfLoss(const Said& first, const std::optional<Said>& use,
                          const std::optional<Said>& coef, const std::optional<Said>& type) {
  const bool says_other = loaded_.SourceOf(kKlCoef).kind == SourceKind::kFile;
  if (!coef && says_other)
    return Problem(first.path, first.place,
                   fmt::format("in EasyR1's first releases {} was the weight of KL in the "
                               "reward, and that in the loss, {}, is not set",
                               kKlCoef, kOldKlCoef),
                   fmt::format("set {}=true and {} in its place", kUseKl, kKlCoef));
  const std::string other =
      says_other ? fmt::format(" in place of {}", loaded_.PlaceOf(kKlCoef)) : "";
  TakeKlOfReward(kKlCoef, coef, ResolveScalar("0.001"), first);
  TakeKlOfReward(kKlPenalty, type, ResolveScalar("low_var_kl"), first);
  const AlgorithmConfig& algorithm = loaded_.config.algorithm;
  std::vector<std::string> said;
  for (const std::optional<Said>* one : {&use, &coef, &type})
    if (*one) said.push_back((*one)->path);
  taken_.push_back(fmt::format("{} as {}=true, kl_coef={}{} and kl_penalty={}",
                               fmt::join(said, " and "), kUseKl, algorithm.kl_coef, other,
                               EscapeControl(algorithm.kl_penalty)));
}

// Replaces the file's value; an override stays. `standard`: the value if nothing is set.
void Merger::TakeKlOfReward(std::string_view key, const std::optional<Said>& said,
                            const Value& standard, const Said& first) {
  override_ = said ? said->override_text : first.override_text;
  if (loaded_.SourceOf(key).kind == SourceKind::kOverride && override_.empty()) return;
  Set(*FindConfigKey(key), said ? said->value : standard, said ? said->place : first.place);
}

}  // namespace nxdkit::trainer
