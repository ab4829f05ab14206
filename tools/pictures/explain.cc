#include "tools/pictures/explain.h"

#include "formats/ops/convert/explain.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"
#include "tools/pictures/page_file.h"
#include "tools/pictures/plan_page.h"
#include "tools/pictures/plan_text.h"

namespace nxdkit::tool {
namespace {

using artifact::Slice;
using artifact::TensorSlices;

Json BoxJson(const Box& box) { return {{"lo", box.lo}, {"extent", box.extent}}; }

Json PartJson(const ops::Explanation& plan, const TensorSlices& tensor, const Slice& slice) {
  const artifact::SliceEnd& from = tensor.sources[slice.from];
  const artifact::SliceEnd& to = tensor.targets[slice.to];
  const LogicalTensor& param = tensor.params[slice.param];
  Json json = {{"tensor", tensor.name},
               {"to", plan.targets[to.file].name},
               {"box", BoxJson(slice.target)},
               {"from", plan.sources[from.file].name},
               {"source", from.name},
               {"source_box", BoxJson(slice.source)},
               {"parameter", param.name},
               {"parameter_box", BoxJson(slice.logical)},
               {"heads", nullptr}};
  if (const auto heads = artifact::HeadsIn(param, slice.logical))
    json["heads"] = {heads->first, heads->second};
  return json;
}

Json ExplanationJson(const ops::Explanation& plan, const std::string& name) {
  Json json = {{"tensor", name.empty() ? Json() : Json(name)},
               {"explanation", plan.text},
               {"tensors", plan.tensors.size()},
               {"flows", FlowsJson(plan)}};
  if (name.empty()) return json;
  Json parts = Json::array();
  for (const TensorSlices& tensor : plan.tensors)
    for (const Slice& slice : tensor.slices) parts.push_back(PartJson(plan, tensor, slice));
  json["parts"] = std::move(parts);
  return json;
}

}  // namespace

void AddExplainOptions(OptionTable& table, ExplainArgs& args) {
  table.OptionalText("explain", "TENSOR", &args.tensor,
                     "draw the sources of an output tensor, a pattern of them or all of them, and "
                     "write no weights");
  AddHtmlOption(table, &args.html);
}

Status SettleExplain(ExplainArgs& args, std::string& input, std::string& output) {
  if (!args.tensor) {
    if (args.html) return BadUsage("--html draws the plan of a conversion: add --explain");
    return OkStatus();
  }
  if (!output.empty()) return OkStatus();
  NXDKIT_ASSIGN(const bool is_path,
                args.tensor->empty() ? Result<bool>(false) : IsThere(*args.tensor));
  if (is_path) output = std::exchange(input, std::exchange(*args.tensor, ""));
  if (output.empty()) output = "output";
  return OkStatus();
}

Result<ToolAnswer> AnswerExplain(const ops::ConvertRequest& request, const ExplainArgs& args,
                                 ToolContext& context) {
  NXDKIT_TRY(CheckPage(args.html, context));
  const std::string& name = *args.tensor;
  NXDKIT_ASSIGN(const ops::Explanation plan, ops::Explain(request, name));
  ToolAnswer answer;
  answer.fields = ExplanationJson(plan, name);
  const PictureOptions options = PictureHere();
  answer.text = name.empty() ? FlowsText(plan, options) : SlicesText(plan, options) + plan.text;
  if (args.html) NXDKIT_TRY(WritePage(*args.html, PlanPage(plan, request), answer));
  return answer;
}

}  // namespace nxdkit::tool
