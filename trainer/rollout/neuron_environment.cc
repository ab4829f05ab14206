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
constexpr char kVisible[] = "NEURON_RT_VISIBLE_CORES";
constexpr char kCount[] = "NEURON_RT_NUM_CORES";
constexpr int64_t kMaxCore = 1 << 16;  // far above what one machine has

bool IsOfNeuron(std::string_view entry) {
  return std::ranges::any_of(kPrefixes, [&](std::string_view p) { return entry.starts_with(p); });
}

// The memory that the kernel shows as /proc/PID/environ: env_start and env_end of proc(5).
struct ShownMemory {
  uint64_t begin = 0, end = 0;
  bool Has(const char* at) const {
    const auto address = reinterpret_cast<uintptr_t>(at);
    return address >= begin && address < end;
  }
};

ShownMemory FindShownMemory() {
  constexpr int kEnvStart = 50, kAfterName = 3;  // fields are counted from 1
  std::ifstream file("/proc/self/stat");         // a file of /proc has no size to read by
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

std::optional<int64_t> CoreOf(std::string_view text) {
  int64_t core = -1;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), core);
  const bool whole = failure == std::errc() && end == text.data() + text.size();
  return whole && core >= 0 && core <= kMaxCore ? std::optional(core) : std::nullopt;
}

// One core for two sides, or twice for one, is not a division.
Status CheckEachOnce(std::vector<int64_t> cores) {
  std::ranges::sort(cores);
  const auto twice = std::ranges::adjacent_find(cores);
  if (twice == cores.end()) return OkStatus();
  return BadUsage("names core {} more than once", *twice)
      .member(kVisible)
      .hint("name each core once");
}

// "16-23", or "0,2,5" where they do not follow one another.
std::string CoresText(const std::vector<int64_t>& cores) {
  if (cores.size() > 1 && cores.back() - cores.front() + 1 == std::ssize(cores) &&
      std::ranges::is_sorted(cores))
    return fmt::format("{}-{}", cores.front(), cores.back());
  return fmt::format("{}", fmt::join(cores, ","));
}

// A group of `tp` cores after the other.
Status CheckGroups(std::span<const int64_t> cores, int64_t tp, std::string_view of) {
  const auto size = static_cast<size_t>(std::max<int64_t>(tp, 1));
  for (size_t at = 0; at + size <= cores.size(); at += size) {
    const std::span<const int64_t> group = cores.subspan(at, size);
    const auto gap = std::ranges::adjacent_find(
        group, [](int64_t core, int64_t next) { return next != core + 1; });
    if (gap == group.end() && group.front() % tp == 0) continue;
    return BadUsage(
               "a group of {} with tp {} gets the cores {}: the collectives take {} that "
               "follow one another from a multiple of {} on",
               of, tp, CoresText({group.begin(), group.end()}), tp, tp)
        .member(kVisible)
        .hint("cores are divided in their order: those of training first, then those of rollout");
  }
  return OkStatus();
}

}  // namespace

Result<std::vector<int64_t>> ParseVisibleCores(std::string_view text) {
  std::vector<int64_t> cores;
  for (std::string_view left = text;; left.remove_prefix(left.find(',') + 1)) {
    const std::string_view range = left.substr(0, left.find(','));
    const size_t dash = range.find('-');
    const std::optional<int64_t> first = CoreOf(range.substr(0, dash));
    const std::optional<int64_t> last =
        dash == std::string_view::npos ? first : CoreOf(range.substr(dash + 1));
    if (!first || !last || *last < *first || std::ssize(cores) > kMaxCore)
      return BadUsage("'{}' is not a list of cores such as 0-15,20", EscapeControl(text))
          .member(kVisible);
    for (int64_t core = *first; core <= *last; ++core) cores.push_back(core);
    if (left.find(',') == std::string_view::npos) break;
  }
  NXDKIT_TRY(CheckEachOnce(cores));
  return cores;
}

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
  // unsetenv forgets where they are; the kernel would still show them.
  for (char* text : texts)
    if (shown.Has(text)) std::memset(text, 0, std::strlen(text));
  std::ranges::sort(taken);
  return taken;
}

Result<GivenCores> ParseGivenCores(std::optional<std::string_view> visible,
                                   std::optional<std::string_view> count) {
  GivenCores given;
  if (visible) {
    NXDKIT_ASSIGN(given.visible, ParseVisibleCores(*visible));
    given.text = fmt::format("{}={}", kVisible, *visible);
    return given;
  }
  if (!count) return given;
  const std::optional<int64_t> cores = CoreOf(*count);
  if (!cores)
    return BadUsage("'{}' is not a number of cores", EscapeControl(*count)).member(kCount);
  if (*cores == 0) return given;
  given.count = cores;
  given.text = fmt::format("{}={}", kCount, *count);
  return given;
}

Result<GivenCores> GivenCoresOfProcess() {
  const std::string visible = EnvironmentValue(kVisible), count = EnvironmentValue(kCount);
  const auto said = [](const std::string& text) {
    return text.empty() ? std::nullopt : std::optional<std::string_view>(text);
  };
  return ParseGivenCores(said(visible), said(count));
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
