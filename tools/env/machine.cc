#include "tools/env/machine.h"

#include <fmt/format.h>

#include "formats/hardware/fit.h"
#include "formats/hf/hub_cache.h"
#include "formats/kinds/rollout/rollout_use.h"
#include "lib/base/choice.h"
#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "tools/env/software.h"

namespace nxdkit::tool {
namespace {

template <typename T>
Json ToldJson(const hardware::Told<T>& told) {
  return {{"value", told ? Json(*told) : Json()}, {"by", TextOrNull(told.by)}};
}

Json HoldersJson(const hardware::Machine& machine) {
  if (!machine.tells_holders) return Json();
  Json holders = Json::array();
  for (const hardware::Holder& holder : machine.holders)
    holders.push_back({{"pid", holder.pid > 0 ? Json(holder.pid) : Json()},
                       {"command", TextOrNull(WithoutSecrets("", holder.command))},
                       {"devices", holder.devices}});
  return holders;
}

// "device 3", "devices 0, 1"
std::string DevicesText(const std::vector<std::string>& numbers) {
  if (numbers.empty()) return "a device of an unknown number";
  return fmt::format("device{} {}", numbers.size() == 1 ? "" : "s", FirstNames(numbers, 16));
}

void AddHolders(const hardware::Machine& machine, Section& section) {
  for (const hardware::Holder& holder : machine.holders) {
    std::vector<std::string> devices;
    for (const int64_t device : holder.devices) devices.push_back(std::to_string(device));
    section.Add(
        "held",
        fmt::format(
            "{} by {}{}", DevicesText(devices),
            holder.pid > 0 ? fmt::format("pid {}", holder.pid) : "a process of an unknown pid",
            holder.command.empty() ? "" : ": " + WithoutSecrets("", holder.command)));
  }
}

Json GivenJson(const hardware::GivenCores& given) {
  return {{"cores", given.visible ? Json(*given.visible) : Json()},
          {"count", given.any() ? Json(given.size()) : Json()},
          {"by", TextOrNull(given.text)}};
}

std::string ConfigPath(const std::string& model) {
  const std::string inside = JoinPath(model, "config.json");
  if (KindForHint(model) != PathKind::kMissing)
    return KindForHint(model) == PathKind::kFile ? model : inside;
  const auto cached = hf::FindInHubCache(hf::HubKind::kModel, model);
  return cached.ok() && !cached->empty() ? JoinPath(*cached, "config.json") : inside;
}

std::vector<int64_t> SizesOf(const hardware::Instance& instance) {
  if (instance.sizes_known) return {instance.inference_tp.begin(), instance.inference_tp.end()};
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= instance.cores; size *= 2) sizes.push_back(size);
  return sizes;
}

double Percent(uint64_t part, uint64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

// The fit at one tensor parallel size.
void AddFit(const models::Model& model, const FitQuery& query, const hardware::Instance& instance,
            int64_t tp, Section& section) {
  rollout::NeuronConfig neuron;
  neuron.tp = static_cast<int>(tp);
  neuron.batch_size = query.batch;
  neuron.sequence_length = query.sequence;
  const Dtype dtype = model.config.dtype.value_or(Dtype::kBF16);
  const bool divides = model.config.heads > 0 && model.config.heads % tp == 0;
  const auto use = kinds::RolloutUseOf(model, neuron, dtype);
  Json row = {{"tp", tp}, {"divides_heads", divides}};
  std::vector<std::string> problems;
  if (!divides) problems.push_back(fmt::format("{} heads", model.config.heads));
  if (!use.ok()) problems.push_back(use.error().message());
  hardware::Fit fit;
  if (use.ok()) {
    fit = hardware::FitRollout(instance, *use);
    problems.insert(problems.end(), fit.problems.begin(), fit.problems.end());
  }
  const uint64_t weights = use.ok() ? use->weight_bytes : 0;
  row["weight_bytes"] = use.ok() ? Json(weights) : Json();
  row["cache_bytes"] = use.ok() ? Json(use->cache_bytes()) : Json();
  row["fits"] = problems.empty();
  row["problems"] = problems;
  row["warnings"] = fit.warnings;
  section.json["sizes"].push_back(std::move(row));
  if (!use.ok() || !divides)
    return section.Add(fmt::format("tp {}", tp), fmt::format("no: {}", fmt::join(problems, "; ")));
  section.Add(
      fmt::format("tp {}", tp),
      fmt::format("{}: weights {} ({:.0f} %), with the cache {} ({:.0f} %) of a core",
                  problems.empty() ? fit.warnings.empty() ? "fits" : "tight" : "no",
                  hardware::GibText(weights), Percent(weights, fit.core_bytes),
                  hardware::GibText(fit.used_bytes()), Percent(fit.used_bytes(), fit.core_bytes)));
}

}  // namespace

Section MachineSection(const hardware::Machine& machine) {
  Section section;
  std::vector<std::string> notes = machine.notes;
  if (std::string lacking = hardware::LackingCores(machine); !lacking.empty())
    notes.push_back(std::move(lacking));
  section.Add("machine", hardware::MachineText(machine));
  if (!machine.guess_basis.empty()) section.Add("guessed", machine.guess_basis);
  AddHolders(machine, section);
  if (machine.given.any())
    section.Add("for us", fmt::format("{} cores, by {}", machine.given.size(), machine.given.text));
  for (const std::string& asked : machine.asked) section.Add("asked", asked);
  for (const std::string& note : notes) section.Add("note", note);
  section.json = {{"instance", ToldJson(machine.instance)},
                  {"guessed_from", TextOrNull(machine.guess_basis)},
                  {"devices", ToldJson(machine.devices)},
                  {"cores_per_device", ToldJson(machine.cores_per_device)},
                  {"lnc", ToldJson(machine.lnc)},
                  {"device_bytes", ToldJson(machine.device_bytes)},
                  {"cores", machine.cores() > 0 ? Json(machine.cores()) : Json()},
                  {"core_bytes", machine.core_bytes() > 0 ? Json(machine.core_bytes()) : Json()},
                  {"processes", HoldersJson(machine)},
                  {"given", GivenJson(machine.given)},
                  {"asked", machine.asked},
                  {"notes", notes}};
  return section;
}

Result<Section> FitsSection(const FitQuery& query, const hardware::Instance& instance) {
  const std::string path = ConfigPath(query.model);
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, models::kMaxConfigBytes));
  NXDKIT_ASSIGN(const models::ModelConfig config, models::ParseConfig(text, path));
  const Result<models::Model> model = models::MakeModel(config);
  Section section;
  section.json = {{"model", path},
                  {"instance", instance.name},
                  {"batch", query.batch},
                  {"sequence", query.sequence},
                  {"core_bytes", instance.bytes_per_core()},
                  {"sizes_known", instance.sizes_known},
                  {"unknown", model.ok() ? Json() : Json(model.error().message())},
                  {"sizes", Json::array()}};
  section.Add("model", fmt::format("{} on {}, batch {}, sequence {}, {} a core", path,
                                   instance.name, query.batch, query.sequence,
                                   hardware::GibText(instance.bytes_per_core())));
  if (!model.ok()) {
    section.Add("fits", "not known: " + model.error().message());
    return section;
  }
  if (!instance.sizes_known)
    section.Add("note", "its sizes are not known: powers of two, by cores and memory");
  for (const int64_t tp : SizesOf(instance)) AddFit(*model, query, instance, tp, section);
  return section;
}

}  // namespace nxdkit::tool
