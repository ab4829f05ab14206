#include "tools/conversions/findings.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "lib/base/text.h"

namespace nxdkit::tool {
namespace {

constexpr size_t kShown = 20;
constexpr size_t kShownOfDiffering = 5;

Json FindingJson(const artifact::Finding& finding) {
  Json json = {{"check", finding.check}, {"message", finding.message}};
  if (!finding.file.empty()) json["file"] = finding.file;
  if (!finding.tensor.empty()) json["tensor"] = finding.tensor;
  if (!finding.param.empty()) json["parameter"] = finding.param;
  if (finding.rank) json["rank"] = *finding.rank;
  if (finding.head) json["head"] = *finding.head;
  if (!finding.index.empty()) json["index"] = finding.index;
  if (finding.count > 0) json["count"] = finding.count;
  if (!finding.expected.empty()) json["expected"] = finding.expected;
  if (!finding.found.empty()) json["found"] = finding.found;
  return json;
}

// Those that name a cause, then those of the most elements.
std::vector<const artifact::Finding*> WorstFirst(const std::vector<artifact::Finding>& findings) {
  std::vector<const artifact::Finding*> ordered;
  for (const artifact::Finding& finding : findings) ordered.push_back(&finding);
  std::ranges::stable_sort(ordered, [](const artifact::Finding* a, const artifact::Finding* b) {
    return std::pair(a->explained, a->count) > std::pair(b->explained, b->count);
  });
  return ordered;
}

}  // namespace

std::string FindingsText(const std::vector<std::string>& checks,
                         const std::vector<artifact::Finding>& findings, const std::string& path,
                         const char* good, const ComparedWith& compared) {
  const std::vector<const artifact::Finding*> ordered = WorstFirst(findings);
  const bool explained = !ordered.empty() && ordered[0]->explained;
  const std::string sentence = compared.params.Text(compared.from, explained);
  const size_t shown = sentence.empty() ? kShown : kShownOfDiffering;
  std::string text;
  if (!sentence.empty()) text += EscapeControl(path + ": " + sentence) + "\n";
  for (const std::string& check : checks) text += "ok: " + EscapeControl(check) + "\n";
  for (size_t i = 0; i < findings.size() && i < shown; ++i) {
    const artifact::Finding& finding = sentence.empty() ? findings[i] : *ordered[i];
    text += "WRONG: " + EscapeControl(finding.ToString()) + "\n";
  }
  if (findings.size() > shown)
    text += fmt::format("... and {} more (--json lists all)\n", Grouped(findings.size() - shown));
  text += EscapeControl(path) + ": ";
  return text + (findings.empty() ? good : Counted(findings.size(), "finding")) + "\n";
}

Json FindingsJson(const std::vector<artifact::Finding>& findings) {
  Json json = Json::array();
  for (const artifact::Finding& finding : findings) json.push_back(FindingJson(finding));
  return json;
}

}  // namespace nxdkit::tool
