#include "trainer/rollout/neuron_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/process.h"

extern char** environ;

namespace nxdkit::trainer {
namespace {

constexpr std::array<std::string_view, 2> kPrefixes = {"NEURON_", "NEURONX_"};
constexpr const char* kVisible = hardware::kVisibleCores;
constexpr const char* kCount = hardware::kNumberOfCores;

bool IsOfNeuron(std::string_view entry) {
  return std::ranges::any_of(kPrefixes, [&](std::string_view p) { return entry.starts_with(p); });
}

// The memory that the kernel shows as /proc/PID/environ: env_start and env_end in proc(5).
struct ShownMemory {
  uint64_t begin = 0, end = 0;
  bool Has(const char* at) const {
    const auto address = reinterpret_cast<uintptr_t>(at);
    return address >= begin && address < end;
  }
};

ShownMemory FindShownMemory() {
  constexpr int kEnvStart = 50, kAfterName = 3;  // fields are counted from 1
  std::ifstream file("/proc/self/stat");         // a file of /proc has no size
  const std::string stat((std::istreambuf_iterator<char>(file)), {});
  std::string_view left = stat;
  left.remove_prefix(std::min(left.rfind(')'), left.size()));
  if (left.empty()) return {};
  for (int field = kAfterName - 1; field < kEnvStart; ++field)
    left.remove_prefix(std::min(left.find(' '), left.size() - 1) + 1);
  ShownMemory shown;
  const char* end = left.data() + left.size();
  const auto first = std::from_chars(left.data(), end, shown.begin);
  if (first.ec != std::errc() || first.ptr == end) return {};
  const auto second = std::from_chars(first.ptr + 1, end, shown.end);
  return second.ec == std::errc() ? shown : ShownMemory{};
}

// "16-23", or "0,2,5" if they are not consecutive.
std::string CoresText(const std::vector<int64_t>& cores) {
  if (cores.size() > 1 && cores.back() - cores.front() + 1 == std::ssize(cores) &&
      std::ranges::is_sorted(cores))
    return fmt::format("{}-{}", cores.front(), cores.back());
  return fmt::format("{}", fmt::join(cores, ","));
}

// Checks the groups of `tp` cores one by one.
Status CheckGroups(std::span<const int64_t> cores, int64_t tp, std::string_view of) {
  const auto size = static_cast<size_t>(std::max<int64_t>(tp, 1));
  for (size_t at = 0; at + size <= cores.size(); at += size) {
    const std::span<const int64_t> group = cores.subspan(at, size);
    const auto gap = std::ranges::adjacent_find(
        group, [](int64_t core, int64_t next) { return next != core + 1; });
    if (gap == group.end() && group.front() % tp == 0) continue;
    return BadUsage(
               "a group of {} with tp {} gets the cores {}: the collectives need {} consecutive "
               "ones from a multiple of {} on",
               of, tp, CoresText({group.begin(), group.end()}), tp, tp)
        .member(kVisible)
        .hint("cores are divided in their order: those of training first, then those of rollout");
  }
  return OkStatus();
}

}  // namespace

std::vector<std::string> TakeNeuronVariables() {
  const ShownMemory shown = FindShownMemory();
  std::vector<std::string> taken;
  std::vector<char*> texts;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    if (IsOfNeuron(*entry)) {
      taken.emplace_back(*entry);
      texts.push_back(*entry);
    }
  for (const std::string& entry : taken) ::unsetenv(std::string(VariableName(entry)).c_str());
  // unsetenv forgets their addresses; the kernel would still show them.
  for (char* text : texts)
    if (shown.Has(text)) std::memset(text, 0, std::strlen(text));
  std::ranges::sort(taken);
  return taken;
}

Result<std::vector<int64_t>> CoresOfRun(const GivenCores& given, const CoreSplit& split,
                                        int64_t instance_cores) {
  const char* const variable = given.visible ? kVisible : kCount;
  if (given.any() && given.size() < split.all())
    return BadUsage("{} names {} cores, the run has {}: {} of training and {} of rollout",
                    given.text, given.size(), split.all(), split.train_cores,
                    split.all() - split.train_cores)
        .member(variable)
        .hint("name as many as trainer.cores, or unset it");
  std::vector<int64_t> cores = given.visible.value_or(std::vector<int64_t>());
  for (int64_t core = 0; !given.visible && core < std::max(given.size(), split.all()); ++core)
    cores.push_back(core);
  if (given.any() && instance_cores > 0)
    if (const int64_t last = *std::ranges::max_element(cores); last >= instance_cores)
      return BadUsage("names core {}, the instance has cores 0 to {}", last, instance_cores - 1)
          .member(variable);
  if (!given.any() && instance_cores == 0) return cores;
  const std::span<const int64_t> all(cores);
  const auto train = static_cast<size_t>(split.train_cores);
  NXDKIT_TRY(CheckGroups(all.first(train), split.train_tp, "training"));
  NXDKIT_TRY(CheckGroups(all.subspan(train, static_cast<size_t>(split.all()) - train),
                         split.cores_per_worker, "rollout"));
  return cores;
}

Result<RolloutEnvironment> DivideNeuronVariables(const std::vector<std::string>& taken,
                                                 const CoreSplit& split, int64_t instance_cores) {
  RolloutEnvironment result;
  std::optional<std::string_view> visible, count;
  for (const std::string& entry : taken) {
    const std::string_view name = VariableName(entry);
    const std::string_view value = std::string_view(entry).substr(name.size() + 1);
    if (name == kVisible)
      visible = value;
    else if (name == kCount)
      count = value.empty() ? std::nullopt : std::optional(value);
    else
      result.all.push_back(entry);
  }
  NXDKIT_ASSIGN(const GivenCores given, ParseGivenCores(visible, count));
  result.has_given_cores = given.any();
  NXDKIT_ASSIGN(const std::vector<int64_t> cores, CoresOfRun(given, split, instance_cores));
  for (int64_t worker = 0; worker < split.workers; ++worker) {
    const auto first = cores.begin() + split.train_cores + worker * split.cores_per_worker;
    result.of.push_back(
        {fmt::format("{}={}", kVisible, CoresText({first, first + split.cores_per_worker}))});
  }
  return result;
}

}  // namespace nxdkit::trainer
