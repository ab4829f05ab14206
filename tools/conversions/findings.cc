#include "tools/conversions/findings.h"

#include <fmt/core.h>

#include "lib/base/text.h"

namespace nxdkit::tool {
namespace {

constexpr size_t kShown = 20;

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

}  // namespace

std::string FindingsText(const std::vector<std::string>& checks,
                         const std::vector<artifact::Finding>& findings, const std::string& path,
                         const char* good) {
  std::string text;
  for (const std::string& check : checks) text += "ok: " + EscapeControl(check) + "\n";
  for (size_t i = 0; i < findings.size() && i < kShown; ++i)
    text += "WRONG: " + EscapeControl(findings[i].ToString()) + "\n";
  if (findings.size() > kShown)
    text += fmt::format("... and {} more (--json lists all)\n", findings.size() - kShown);
  text += EscapeControl(path) + ": ";
  if (findings.empty()) return text + good + "\n";
  return text + fmt::format("{} finding{}\n", findings.size(), findings.size() == 1 ? "" : "s");
}

Json FindingsJson(const std::vector<artifact::Finding>& findings) {
  Json json = Json::array();
  for (const artifact::Finding& finding : findings) json.push_back(FindingJson(finding));
  return json;
}

}  // namespace nxdkit::tool
