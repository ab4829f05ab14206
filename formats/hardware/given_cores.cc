#include "formats/hardware/given_cores.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/process.h"

namespace nxdkit::hardware {
namespace {

constexpr int64_t kMaxCore = 1 << 16;  // far more than one machine has

std::optional<int64_t> CoreOf(std::string_view text) {
  int64_t core = -1;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), core);
  const bool whole = failure == std::errc() && end == text.data() + text.size();
  return whole && core >= 0 && core <= kMaxCore ? std::optional(core) : std::nullopt;
}

// A core given to both sides, or twice to one, is an error.
Status CheckEachOnce(std::vector<int64_t> cores) {
  std::ranges::sort(cores);
  const auto twice = std::ranges::adjacent_find(cores);
  if (twice == cores.end()) return OkStatus();
  return BadUsage("names core {} more than once", *twice)
      .member(kVisibleCores)
      .hint("name each core once");
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
          .member(kVisibleCores);
    for (int64_t core = *first; core <= *last; ++core) cores.push_back(core);
    if (left.find(',') == std::string_view::npos) break;
  }
  NXDKIT_TRY(CheckEachOnce(cores));
  return cores;
}

Result<GivenCores> ParseGivenCores(std::optional<std::string_view> visible,
                                   std::optional<std::string_view> count) {
  GivenCores given;
  if (visible) {
    NXDKIT_ASSIGN(given.visible, ParseVisibleCores(*visible));
    given.text = fmt::format("{}={}", kVisibleCores, *visible);
    return given;
  }
  if (!count) return given;
  const std::optional<int64_t> cores = CoreOf(*count);
  if (!cores)
    return BadUsage("'{}' is not a number of cores", EscapeControl(*count)).member(kNumberOfCores);
  if (*cores == 0) return given;
  given.count = cores;
  given.text = fmt::format("{}={}", kNumberOfCores, *count);
  return given;
}

Result<GivenCores> GivenCoresOfProcess() {
  const std::string visible = EnvironmentValue(kVisibleCores),
                    count = EnvironmentValue(kNumberOfCores);
  const auto said = [](const std::string& text) {
    return text.empty() ? std::nullopt : std::optional<std::string_view>(text);
  };
  return ParseGivenCores(said(visible), said(count));
}

}  // namespace nxdkit::hardware
