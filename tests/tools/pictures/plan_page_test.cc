// The pictures of a plan, on a page and in a terminal.
#include "tools/pictures/plan_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/pictures/plan_text.h"

namespace nxdkit::tool {
namespace {

using ::testing::HasSubstr;

ops::Explanation PlanOf(uint32_t sources, uint32_t targets) {
  ops::Explanation plan;
  plan.sources.assign(sources, {"a", "a", 1});
  plan.targets.assign(targets, {"b", "b", 1});
  for (uint32_t from = 0; from < sources; ++from)
    for (uint32_t to = 0; to < targets; ++to) plan.flows.push_back({from, to, 1});
  return plan;
}

TEST(PlanPage, NoFlowsAreNotTooManyFlows) {
  ops::ConvertRequest request;
  request.to = request.from;
  EXPECT_THAT(PlanPage(PlanOf(0, 2), request), HasSubstr(R"("flows":[])"));
  EXPECT_THAT(PlanPage(PlanOf(2, 1), request), HasSubstr(R"("flows":[[0,0,1],[1,0,1]])"));
  EXPECT_THAT(PlanPage(PlanOf(400, 251), request), HasSubstr(R"("flows":null)"));
}

// Four parts of a matrix: two halves of the rows, each in two halves of the columns.
TEST(PlanText, PartsCutAlongTwoAxesHaveBarsOfTheirOwn) {
  ops::Explanation plan = PlanOf(1, 4);
  artifact::TensorSlices tensor;
  tensor.name = "w";
  tensor.sources = {{"w", 0, Dtype::kF32, {4, 8}}};
  tensor.params.resize(1);
  tensor.params[0].name = "w";
  tensor.params[0].shape = {4, 8};
  for (uint32_t to = 0; to < 4; ++to) {
    tensor.targets.push_back({"w", to, Dtype::kF32, {2, 4}});
    const Box box = {{to / 2 * 2, to % 2 * 4}, {2, 4}};
    tensor.slices.push_back({0, to, box, {{0, 0}, {2, 4}}, 0, box});
  }
  plan.tensors = {tensor};
  const std::string text = SlicesText(plan, {.columns = 80, .utf8 = false});
  for (const char* line : {"##########..............................  [0:2, 0:4]",
                           "..........##########....................  [0:2, 4:8]",
                           "....................##########..........  [2:4, 0:4]",
                           "..............................##########  [2:4, 4:8]"})
    EXPECT_THAT(text, HasSubstr(line));
}

}  // namespace
}  // namespace nxdkit::tool
