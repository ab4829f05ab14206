#include "formats/training/state_keys.h"

#include <algorithm>

namespace nxdkit::training {
namespace {

constexpr std::string_view kModulesAround[] = {"module", "_orig_mod", "_checkpoint_wrapped_module",
                                               "_fsdp_wrapped_module"};

constexpr std::string_view kKeptNames[] = {"step",           "exp_avg",         "exp_avg_sq",
                                           "max_exp_avg_sq", "momentum_buffer", "square_avg"};

}  // namespace

std::string WithoutWrappers(std::string_view name) {
  std::string plain;
  for (size_t first = 0; first <= name.size();) {
    const size_t dot = std::min(name.find('.', first), name.size());
    const std::string_view part = name.substr(first, dot - first);
    if (std::ranges::find(kModulesAround, part) == std::end(kModulesAround)) {
      if (!plain.empty()) plain += '.';
      plain += part;
    }
    first = dot + 1;
  }
  return plain;
}

std::string BeforeKnown(std::string_view key, const KnowsName& knows) {
  for (size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.', dot + 1))
    if (knows(key.substr(dot + 1))) return std::string(key.substr(0, dot + 1));
  return "";
}

std::string WrapperOf(std::string_view key, const KnowsName& knows) {
  std::string wrapper = BeforeKnown(key, knows);
  if (wrapper.ends_with("." + std::string(kModelPrefix)))
    wrapper.resize(wrapper.size() - kModelPrefix.size());
  return wrapper;
}

std::pair<std::string, std::string> SplitStateKey(std::string_view key) {
  const size_t dot = key.rfind('.');
  if (dot == std::string_view::npos) return {std::string(key), ""};
  return {std::string(key.substr(0, dot)), std::string(key.substr(dot + 1))};
}

bool IsKeptName(std::string_view name) {
  return std::ranges::find(kKeptNames, name) != std::end(kKeptNames);
}

bool IsStateNumber(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace nxdkit::training
