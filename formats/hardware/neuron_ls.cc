#include "formats/hardware/neuron_ls.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "lib/base/choice.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json.h"

namespace nxdkit::hardware {
namespace {

constexpr size_t kMostDevices = 1024;  // today's UltraServer has 144
constexpr size_t kMostProcesses = 64;  // of a device
constexpr size_t kMostNotes = 16;
constexpr int64_t kMostCores = 256;  // of a device
constexpr int64_t kMostLnc = 16;
constexpr int64_t kMostBytes = int64_t{1} << 50;  // of a device's memory
constexpr int64_t kMostPid = int64_t{1} << 31;
constexpr JsonOptions kOptions{.allow_nan = true, .allow_duplicate_keys = true, .max_depth = 32};

// Things that were not understood, with their devices: 16 devices of a release have the same
// oddity.
class Oddities {
 public:
  void Add(const std::string& device, std::string what) {
    std::vector<std::string>& devices = devices_[std::move(what)];
    if (std::ranges::find(devices, device) == devices.end()) devices.push_back(device);
  }
  std::vector<std::string> Notes() const {
    std::vector<std::string> notes;
    for (const auto& [what, devices] : devices_) {
      if (notes.size() == kMostNotes) break;
      notes.push_back(fmt::format("device{} {}: {}", devices.size() == 1 ? "" : "s",
                                  FirstNames(devices), what));
    }
    return notes;
  }

 private:
  std::map<std::string, std::vector<std::string>> devices_;
};

// Reads one entry of the array.
class DeviceReader {
 public:
  DeviceReader(const Json& object, std::string name, Oddities& oddities)
      : object_(object), name_(std::move(name)), oddities_(oddities) {}

  // `required`: adds a note when it is missing.
  std::optional<int64_t> Int(std::string_view key, int64_t least, int64_t most, bool required) {
    const Json* value = JsonFind(object_, key);
    if (!value) {
      if (required) Odd(fmt::format("{} is missing", key));
      return std::nullopt;
    }
    const std::optional<int64_t> number = NumberOf(*value);
    if (number && *number >= least && *number <= most) return number;
    Odd(number || value->is_number()
            ? fmt::format("{} is {}, expected {} to {}", key, JsonExcerpt(*value), least, most)
            : fmt::format("{} is {}, expected an integer", key, JsonTypeText(*value)));
    return std::nullopt;
  }

  std::string Text(std::string_view key) {
    const Json* value = JsonFind(object_, key);
    if (!value) return "";
    if (value->is_string()) return ShortName(value->get_ref<const std::string&>());
    Odd(fmt::format("{} is {}, expected a string", key, JsonTypeText(*value)));
    return "";
  }

  const Json* Array(std::string_view key) {
    const Json* value = JsonFind(object_, key);
    if (!value || value->is_array()) return value;
    Odd(fmt::format("{} is {}, expected an array", key, JsonTypeText(*value)));
    return nullptr;
  }

  void Odd(std::string what) { oddities_.Add(name_, std::move(what)); }

 private:
  static std::optional<int64_t> NumberOf(const Json& value) {
    if (!value.is_number_integer()) return std::nullopt;
    if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return std::nullopt;
    return value.get<int64_t>();
  }

  const Json& object_;
  std::string name_;
  Oddities& oddities_;
};

void ReadProcesses(DeviceReader& reader, const std::string& name, Oddities& oddities,
                   NeuronDevice& device) {
  const Json* list = reader.Array("neuron_processes");
  if (!list) return;
  if (list->size() > kMostProcesses)
    reader.Odd(fmt::format("{} processes, the first {} are read", list->size(), kMostProcesses));
  for (size_t i = 0; i < std::min(list->size(), kMostProcesses); ++i) {
    const Json& entry = (*list)[i];
    if (!entry.is_object()) {
      reader.Odd(fmt::format("a process is {}, expected an object", JsonTypeText(entry)));
      continue;
    }
    DeviceReader process(entry, name, oddities);
    device.processes.push_back(
        {process.Int("pid", 1, kMostPid, true).value_or(0), process.Text("command")});
  }
}

NeuronDevice ReadDevice(const Json& object, size_t index, Oddities& oddities,
                        std::string& instance_type) {
  NeuronDevice device;
  const Json* number = JsonFind(object, "neuron_device");
  const std::string name =
      number && number->is_number_integer() ? JsonExcerpt(*number) : fmt::format("at {}", index);
  DeviceReader reader(object, name, oddities);
  device.number = reader.Int("neuron_device", 0, kMostPid, true);
  device.cores = reader.Int("nc_count", 1, kMostCores, true);
  device.lnc = reader.Int("logical_neuroncore_config", 1, kMostLnc, false);
  if (const auto bytes = reader.Int("memory_size", 1, kMostBytes, true))
    device.memory_bytes = static_cast<uint64_t>(*bytes);
  ReadProcesses(reader, name, oddities, device);
  const std::string type = reader.Text("instance_type");
  if (instance_type.empty())
    instance_type = type;
  else if (!type.empty() && type != instance_type)
    reader.Odd(fmt::format("instance_type is {}, for others it is {}", type, instance_type));
  return device;
}

}  // namespace

Result<NeuronLs> ParseNeuronLs(std::string_view text) {
  if (text.size() > kMaxNeuronLsBytes)
    return Corrupt("{} bytes are over the limit of {}", text.size(), kMaxNeuronLsBytes);
  if (text.find_first_not_of(" \t\r\n") == text.npos) return Corrupt("it is empty");
  NXDKIT_ASSIGN(const Json json, ParseJson(text, kOptions));
  if (!json.is_array())
    return Corrupt("the JSON is {}, expected an array of devices", JsonTypeText(json));
  NeuronLs found;
  Oddities oddities;
  if (json.size() > kMostDevices)
    found.notes.push_back(
        fmt::format("{} devices are listed, the first {} are read", json.size(), kMostDevices));
  std::set<int64_t> numbers;
  for (size_t i = 0; i < std::min(json.size(), kMostDevices); ++i) {
    if (!json[i].is_object())
      return Corrupt("entry {} of the array is {}, expected an object", i, JsonTypeText(json[i]));
    NeuronDevice device = ReadDevice(json[i], i, oddities, found.instance_type);
    if (device.number && !numbers.insert(*device.number).second)
      oddities.Add(fmt::format("{}", *device.number), "listed more than once; it is counted once");
    else
      found.devices.push_back(std::move(device));
  }
  for (std::string& note : oddities.Notes()) found.notes.push_back(std::move(note));
  return found;
}

}  // namespace nxdkit::hardware
