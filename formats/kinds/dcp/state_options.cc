#include "formats/kinds/dcp/read_dcp.h"

#include <algorithm>
#include <map>
#include <utility>

#include "formats/dcp/folder.h"
#include "formats/training/adam_options.h"
#include "formats/training/keep_params.h"
#include "formats/training/state_keys.h"
#include "lib/base/errors.h"

namespace nxdkit::kinds {
namespace {

using torch::PickleDict;
using torch::PickleValue;

constexpr std::string_view kParams = "params";
// torch's optimizers have some ten; each new one is compared with those before it.
constexpr size_t kMostOptions = 256;

// The options of one group, by name, and the key of the last one for messages.
struct Group {
  std::vector<std::pair<std::string, PickleValue>> options;
  std::string key;
};

class Reader {
 public:
  Reader(const BoundArtifact& source, const DcpTensors& known, size_t params)
      : source_(source), known_(known), options_(params) {}

  Result<std::vector<PickleDict>> Run() {
    NXDKIT_TRY(ReadAll().in(source_.artifact.path));
    for (const auto& [number, group] : groups_)
      NXDKIT_TRY(AddGroup(group).in(source_.artifact.path).on(group.key));
    for (PickleDict& options : options_)
      std::ranges::sort(options, {}, [](const auto& option) { return *option.first.string(); });
    return std::move(options_);
  }

 private:
  Status ReadAll() {
    const dcp::Folder& folder = *DcpFolderOf(source_.artifact);
    for (const dcp::ObjectEntry& object : folder.metadata.objects) {
      if (!object.key.starts_with(kOptimizerGroups)) continue;
      NXDKIT_ASSIGN(PickleValue value, dcp::ReadObjectValue(folder, object));
      NXDKIT_TRY(Add(object.key, std::move(value)).on(object.key));
    }
    for (const dcp::StoredEntry& entry : folder.tensors) {
      if (!entry.key.starts_with(kOptimizerGroups)) continue;
      NXDKIT_TRY(AddTensor(entry).on(entry.key));
    }
    return OkStatus();
  }

  // An option that `capturable` or `fused` made a tensor.
  Status AddTensor(const dcp::StoredEntry& entry) {
    if (!entry.shape.empty())
      return Unsupported("the option is a tensor of shape {}, expected a number",
                         ShapeText(entry.shape))
          .hint("--no-optimizer leaves the optimizer's state out");
    NXDKIT_ASSIGN(const double number, ReadScalar(entry.chunks.front().stored));
    return Add(entry.key, {number});
  }

  Status Add(const std::string& key, PickleValue value) {
    auto [name, option] = SplitStateKey(std::string_view(key).substr(kOptimizerGroups.size()));
    if (IsStateNumber(name)) {
      Group& group = groups_[name];
      group.options.push_back({std::move(option), std::move(value)});
      group.key = key;
      return OkStatus();
    }
    return AddTo(name, option, value);
  }

  Status AddTo(const std::string& name, const std::string& option, const PickleValue& value) {
    NXDKIT_ASSIGN(const dcp::GlobalTensor* tensor, FindDcpTensor(known_, name));
    for (const uint32_t i : ParamsOf(tensor->layout)) NXDKIT_TRY(AddOption(i, option, value));
    return OkStatus();
  }

  // A second name of the parameter must say the same.
  Status AddOption(uint32_t i, const std::string& option, const PickleValue& value) {
    for (const auto& [key, known] : options_[i]) {
      if (*key.string() != option) continue;
      NXDKIT_ASSIGN(const bool same, SameOption(known, value));
      return same ? OkStatus()
                  : Status(Corrupt("{} of {} has a different value under another of its names",
                                   option, source_.params[i].name));
    }
    if (options_[i].size() == kMostOptions)
      return Unsupported("{} has over {} options of an optimizer", source_.params[i].name,
                         kMostOptions);
    options_[i].push_back({{option}, value});
    return OkStatus();
  }

  Status AddGroup(const Group& group) {
    const auto params =
        std::ranges::find_if(group.options, [](const auto& item) { return item.first == kParams; });
    if (params == group.options.end() || !params->second.list())
      return Corrupt("the group does not list its parameters in \"{}\"", kParams);
    for (const PickleValue& param : *params->second.list()) {
      const std::string name = NameOf(param);
      NXDKIT_TRY(FindDcpTensor(known_, name));
      for (const auto& [option, value] : group.options)
        if (option != kParams) NXDKIT_TRY(AddTo(name, option, value));
    }
    return OkStatus();
  }

  // In torch's own optimizer a parameter is a number.
  static std::string NameOf(const PickleValue& param) {
    if (const std::string* name = param.string()) return *name;
    const int64_t* number = param.integer();
    return number && *number >= 0 ? std::to_string(*number) : "that is not a name";
  }

  const BoundArtifact& source_;
  const DcpTensors& known_;
  std::vector<PickleDict> options_;  // per model parameter
  std::map<std::string, Group> groups_;
};

}  // namespace

Result<std::vector<PickleDict>> ReadDcpOptions(const BoundArtifact& source, const DcpTensors& known,
                                               size_t params) {
  return Reader(source, known, params).Run();
}

}  // namespace nxdkit::kinds
