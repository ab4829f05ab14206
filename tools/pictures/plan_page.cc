#include "tools/pictures/plan_page.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/text.h"
#include "lib/page/html.h"
#include "lib/page/page.h"
#include "lib/system/paths.h"
#include "tools/pictures/page_names.h"
#include "tools/pictures/tensor_tree.h"

namespace nxdkit::tool {
namespace {

constexpr size_t kMostFlows = 100'000;  // more are null, and not drawn

std::string EndsData(const std::vector<ops::PlanEnd>& ends) {
  std::string text;
  for (const ops::PlanEnd& end : ends)
    text += fmt::format("{}[{},{}]", text.empty() ? "" : ",", NameJson(end.label), end.bytes);
  return "[" + text + "]";
}

std::string FlowsData(const std::vector<ops::PlanFlow>& flows) {
  if (flows.size() > kMostFlows) return "null";
  std::string text;
  for (const ops::PlanFlow& flow : flows)
    text += fmt::format("{}[{},{},{}]", text.empty() ? "" : ",", flow.from, flow.to, flow.bytes);
  return "[" + text + "]";
}

std::string PlanData(const ops::Explanation& plan) {
  std::vector<TreeTensor> tensors;
  for (const artifact::TensorSlices& each : plan.tensors)
    tensors.push_back({&each, each.target_bytes(), ""});
  const std::string files =
      fmt::format(R"("sources":{},"targets":{},"flows":{})", EndsData(plan.sources),
                  EndsData(plan.targets), FlowsData(plan.flows));
  return "{" + files + "," +
         TreeMembers(tensors, page::kMostData - std::min(page::kMostData, files.size())) + "}";
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
  std::vector<page::Card> cards = {{"tensors", Grouped(plan.tensors.size())},
                                   {"bytes written", HumanBytes(bytes)},
                                   {"files read", Grouped(plan.sources.size())},
                                   {"files written", Grouped(plan.targets.size())}};
  if (plan.fill_bytes > 0)
    cards.insert(cards.begin() + 2, {"of them constants", HumanBytes(plan.fill_bytes)});
  page.Add(page::Cards(cards));
  page.Heading("From the files read to the files written");
  page.Add(
      "<div id=\"flows\"></div>\n<h2>One tensor</h2>\n<div id=\"chosen\"></div>\n"
      "<noscript><p>The picture needs this page's own script.</p></noscript>\n"
      "<h2>All tensors</h2>\n<div id=\"tensors\"></div>\n");
  page.AddData("plan", PlanData(plan));
  page.Use(page::Script::kPlan);
  return page.Text();
}

}  // namespace nxdkit::tool
