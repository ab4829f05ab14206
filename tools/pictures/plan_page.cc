#include "tools/pictures/plan_page.h"

#include <fmt/core.h>

#include "lib/base/text.h"
#include "lib/page/html.h"
#include "lib/page/page.h"
#include "lib/system/paths.h"
#include "tools/pictures/tensor_tree.h"

namespace nxdkit::tool {
namespace {

Json EndsJson(const std::vector<ops::PlanEnd>& ends) {
  Json json = Json::array();
  for (const ops::PlanEnd& end : ends)
    json.push_back({EscapeControl(end.label), end.bytes, EscapeControl(end.name)});
  return json;
}

Json PlanData(const ops::Explanation& plan) {
  std::vector<TreeTensor> tensors;
  for (const artifact::TensorSlices& each : plan.tensors)
    tensors.push_back({&each, each.target_bytes(), ""});
  Json json = TensorTree(tensors, kTreeBytes);
  json["sources"] = EndsJson(plan.sources);
  json["targets"] = EndsJson(plan.targets);
  Json flows = Json::array();
  for (const ops::PlanFlow& flow : plan.flows) flows.push_back({flow.from, flow.to, flow.bytes});
  json["flows"] = std::move(flows);
  return json;
}

}  // namespace

Json FlowsJson(const ops::Explanation& plan) {
  Json json = Json::array();
  for (const ops::PlanFlow& flow : plan.flows)
    json.push_back({{"from", plan.sources[flow.from].name},
                    {"to", plan.targets[flow.to].name},
                    {"bytes", flow.bytes}});
  return json;
}

std::string PlanPage(const ops::Explanation& plan, const ops::ConvertRequest& request) {
  uint64_t bytes = 0;
  for (const ops::PlanEnd& end : plan.targets) bytes += end.bytes;
  page::Page page(fmt::format("{} to {}: the plan of {}", request.from->name, request.to->name,
                              BaseName(request.input)));
  page.Add(page::Cards({{"tensors", Grouped(plan.tensors.size())},
                        {"bytes written", HumanBytes(bytes)},
                        {"of them constants", HumanBytes(plan.fill_bytes)},
                        {"files read", Grouped(plan.sources.size())},
                        {"files written", Grouped(plan.targets.size())}}));
  page.Heading("From file to rank");
  page.Add(
      "<div id=\"flows\"></div>\n<h2>One tensor</h2>\n<div id=\"chosen\" aria-live=\"polite\">"
      "</div>\n<noscript><p>The picture needs this page's own script.</p></noscript>\n"
      "<h2>All tensors</h2>\n<div id=\"tensors\"></div>\n");
  page.AddData("plan", PlanData(plan).dump());
  page.Use(page::Script::kPlan);
  return page.Text();
}

}  // namespace nxdkit::tool
