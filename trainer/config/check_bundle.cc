#include "trainer/config/check_bundle.h"

#include <fmt/core.h>

#include "formats/rollout/neuron_config.h"
#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/system/file.h"
#include "lib/system/paths.h"
#include "lib/tensor/dtype.h"
#include "trainer/config/check_plan.h"
#include "trainer/config/checker.h"

namespace nxdkit::trainer {
namespace {

constexpr std::string_view kOverride = "worker.rollout.neuron_override_config";
constexpr uint64_t kMaxBytes = 16 << 20;

std::string Leaf(std::string_view name) { return fmt::format("{}.{}", kOverride, name); }

// "set it to 32, or export the bundle again: neuron-export --bs 64"
template <typename T>
std::string Fix(const T& made, std::string_view option, const T& asked) {
  std::string fix = fmt::format("set it to {}, or make the bundle again", made);
  if (!option.empty()) fix += fmt::format(": neuron-export {} {}", option, asked);
  return fix;
}

template <typename T>
void CheckEqual(Checker& check, std::string_view key, const std::optional<T>& asked, const T& made,
                std::string_view option) {
  if (asked && *asked != made)
    check.Problem(key, fmt::format("{} is asked for, the bundle is made for {}", *asked, made),
                  Fix(made, option, *asked));
}

void CheckSizes(Checker& check, const rollout::NeuronConfig& made) {
  const RolloutConfig& rollout = check.config().worker.rollout;
  const NeuronOverrideConfig& asked = rollout.neuron_override_config;
  CheckEqual(check, Leaf("tp_degree"), asked.tp_degree, int64_t{made.tp}, "--tp");
  CheckEqual(check, Leaf("batch_size"), asked.batch_size, made.batch_size, "--bs");
  CheckEqual(check, Leaf("seq_len"), asked.seq_len, made.sequence_length, "--seq");
  if (rollout.max_model_len && *rollout.max_model_len > made.sequence_length)
    check.Problem("worker.rollout.max_model_len",
                  fmt::format("{} is over the {} positions that the bundle is made for",
                              *rollout.max_model_len, made.sequence_length),
                  Fix(made.sequence_length, "--seq", *rollout.max_model_len));
  // Values that the configuration does not repeat must still fit.
  CheckCompiled(check, MakeRunPlan(check.config()),
                asked.tp_degree ? std::nullopt : std::optional<int64_t>(made.tp),
                asked.seq_len ? std::nullopt : std::optional(made.sequence_length));
}

// A default requires nothing: the dtype of the bundle applies then.
void CheckDtype(Checker& check, const rollout::NeuronConfig& made) {
  constexpr std::string_view kKey = "worker.rollout.dtype";
  if (!check.IsSet(kKey)) return;
  const Dtype asked = RolloutDtype(check.config().worker.rollout);
  if (TorchName(asked) != made.torch_dtype)
    check.Problem(
        kKey,
        fmt::format("{} is asked for, the bundle is made for {}", TorchName(asked),
                    EscapeControl(made.torch_dtype)),
        Fix(made.torch_dtype, "--dtype", std::string(asked == Dtype::kF32 ? "f32" : "bf16")));
}

// optimum-neuron has a flag, NxDI a group that is present or absent.
bool SamplesOnDevice(const Json& neuron) {
  const Json* flag = JsonFind(neuron, "on_device_sampling");
  if (flag && flag->is_boolean()) return flag->get<bool>();
  return JsonFind(neuron, "on_device_sampling_config") != nullptr;
}

// Names of the same element type are equal: bf16, bfloat16.
bool IsSameText(const std::string& asked, const std::string& made) {
  const auto dtype = DtypeFromTorchName(asked);
  return asked == made || (dtype && DtypeFromTorchName(made) == dtype);
}

// A map requires the entries that it has; a number equals its other types: 1 and 1.0.
bool IsAsAsked(const Value& asked, const Json& made) {
  switch (asked.kind) {
    case ValueKind::kNull:
      return made.is_null();
    case ValueKind::kBool:
      return made.is_boolean() && made.get<bool>() == asked.boolean;
    case ValueKind::kInt:
    case ValueKind::kDouble:
      return made.is_number() && made.get<double>() == asked.number;
    case ValueKind::kString:
      return made.is_string() && IsSameText(asked.text, made.get<std::string>());
    case ValueKind::kList:
      if (!made.is_array() || made.size() != asked.items.size()) return false;
      for (size_t i = 0; i < asked.items.size(); ++i)
        if (!IsAsAsked(asked.items[i], made[i])) return false;
      return true;
    case ValueKind::kMap:
      if (!made.is_object()) return false;
      for (const ValueEntry& entry : asked.entries) {
        const auto found = made.find(entry.key);
        if (found == made.end() || !IsAsAsked(entry.value, *found)) return false;
      }
      return true;
  }
  return false;
}

void CheckOthers(Checker& check, const Json& neuron) {
  const NeuronOverrideConfig& asked = check.config().worker.rollout.neuron_override_config;
  CheckEqual(check, Leaf("on_device_sampling"), asked.on_device_sampling, SamplesOnDevice(neuron),
             "");
  for (const ValueEntry& entry : asked.others.entries) {
    const auto made = neuron.find(entry.key);
    const bool there = made != neuron.end();
    if (there && IsAsAsked(entry.value, *made)) continue;
    check.Problem(
        kOverride,
        fmt::format("{}: {} is asked for, the bundle {}", EscapeControl(entry.key),
                    EscapeControl(ValueText(entry.value)),
                    there ? "is made for " + JsonExcerpt(*made) : "has no such key"),
        there ? "set it to that, or make the bundle again" : "take it out, or correct its name");
  }
}

}  // namespace

std::vector<ConfigProblem> CheckBundle(const LoadedConfig& loaded, const std::string& folder) {
  Checker check(loaded);
  const std::string path = JoinPath(folder, "neuron_config.json");
  const auto refuse = [&](const Error& error) {
    check.Problem(
        "worker.rollout.model_path", error.ToString(),
        error.code() == Errc::kNotFound ? "name a rollout bundle, as neuron-export makes them" : "",
        error.code());
    return check.problems;
  };
  const auto text = ReadSmallFile(path, kMaxBytes);
  if (!text.ok()) return refuse(text.error());
  const auto made = rollout::ParseNeuronConfig(*text, path);
  if (!made.ok()) return refuse(made.error());
  const auto json = ParseJson(*text, kLikePython);
  if (!json.ok()) return refuse(json.error());
  const Json* nested = JsonFind(*json, "neuron_config");
  CheckSizes(check, *made);
  CheckDtype(check, *made);
  CheckOthers(check, made->flavor == rollout::Flavor::kNxdi ? *nested : *json);
  return check.problems;
}

}  // namespace nxdkit::trainer
