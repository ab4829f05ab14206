#include "formats/artifact/finding.h"

#include <fmt/core.h>

#include <set>
#include <string_view>
#include <utility>

#include "lib/base/text.h"

namespace nxdkit::artifact {

// Names and the message are cut as in an Error: a file may have a name of a megabyte.
Finding::Finding(std::string check_name, std::string text)
    : check(std::move(check_name)), message(ShortText(std::move(text))) {}

Finding Finding::in(std::string path) && {
  file = std::move(path);
  return std::move(*this);
}

Finding Finding::on(std::string name) && {
  tensor = ShortName(name);
  return std::move(*this);
}

Finding Finding::of(std::string name) && {
  param = ShortName(name);
  return std::move(*this);
}

Finding Finding::at_rank(std::optional<int64_t> number) && {
  rank = number;
  return std::move(*this);
}

Finding Finding::differs(std::string here, std::string wanted) && {
  found = std::move(here);
  expected = std::move(wanted);
  return std::move(*this);
}

std::string Finding::ToString() const {
  std::string text;
  if (!file.empty()) text += file + ": ";
  if (!tensor.empty()) text += tensor + ": ";
  if (rank) text += fmt::format("rank {}: ", *rank);
  if (!param.empty() && param != tensor && (head || !index.empty())) text += param + ": ";
  if (head) text += fmt::format("head {}: ", *head);
  if (!index.empty()) text += fmt::format("row {}: ", index[0]);
  return text + message;
}

std::string DifferingParams::Text(const std::string& from, bool explained) const {
  if (differing == 0) return "";
  std::string text;
  if (differing == all)
    text = all == 1 ? "the only parameter differs" : "all " + Counted(all, "parameter") + " differ";
  else
    text = fmt::format("{}{} of {} {}", at_least ? "at least " : "", Grouped(differing),
                       Counted(all, "parameter"), differing == 1 ? "differs" : "differ");
  text += " from " + from;
  const bool mostly = all > 1 && differing >= all - differing;
  return mostly && !explained ? text + ": another model or another step" : text;
}

DifferingParams CountDiffering(const std::vector<Finding>& findings, uint64_t all) {
  std::set<std::string_view> params;
  for (const Finding& finding : findings)
    if (!finding.param.empty()) params.insert(finding.param);
  return {all, params.size()};
}

}  // namespace nxdkit::artifact
