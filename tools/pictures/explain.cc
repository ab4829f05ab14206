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

constexpr uint64_t kJsonPartBytes = 5000;  // of a part in a document, while it is made and printed

Json BoxJson(const Box& box) { return {{"lo", box.lo}, {"extent", box.extent}}; }

Json PartJson(const ops::Explanation& plan, const TensorSlices& tensor, const Slice& slice) {
  const artifact::SliceEnd& from = tensor.sources[slice.from];
  const artifact::SliceEnd& to = tensor.targets[slice.to];
  const LogicalTensor& param = tensor.params[slice.param];
  const auto heads = artifact::HeadsIn(param, slice.logical);
  return {{"tensor", tensor.name},
          {"to", plan.targets[to.file].name},
          {"box", BoxJson(slice.target)},
          {"from", plan.sources[from.file].name},
          {"source", from.name},
          {"source_box", BoxJson(slice.source)},
          {"parameter", param.name},
          {"parameter_box", BoxJson(slice.logical)},
          {"heads", heads ? Json{heads->first, heads->second} : Json()},
          {"value", nullptr}};
}

Json ConstantJson(const ops::Explanation& plan, const TensorSlices& tensor,
                  const artifact::SliceFill& fill) {
  return {{"tensor", tensor.name},
          {"to", plan.targets[tensor.targets[fill.to].file].name},
          {"box", BoxJson(fill.target)},
          {"from", nullptr},
          {"source", nullptr},
          {"source_box", nullptr},
          {"parameter", nullptr},
          {"parameter_box", nullptr},
          {"heads", nullptr},
          {"value", fill.value}};
}

Json ExplanationJson(const ops::Explanation& plan, const std::string& name) {
  Json json = {{"tensor", name.empty() ? Json() : Json(name)},
               {"explanation", plan.text},
               {"tensors", plan.tensors.size()},
               {"flows", FlowsJson(plan)}};
  if (name.empty()) return json;
  Json parts = Json::array();
  for (const TensorSlices& tensor : plan.tensors) {
    for (const Slice& slice : tensor.slices) parts.push_back(PartJson(plan, tensor, slice));
    for (const auto& fill : tensor.fills) parts.push_back(ConstantJson(plan, tensor, fill));
  }
  json["parts"] = std::move(parts);
  return json;
}

}  // namespace

void AddExplainOptions(OptionTable& table, ExplainArgs& args) {
  table.OptionalText("explain", "TENSOR", &args.tensor,
                     "write no weights; draw the sources of an output tensor, or of all that match "
                     "a pattern, or of all");
  AddHtmlOption(table, &args.html,
                "with --explain: also write a page for a browser that draws the plan");
}

Status SettleExplain(ExplainArgs& args, std::string& input, std::string& output) {
  if (!args.tensor) {
    if (args.html) return BadUsage("--html draws the plan of a conversion: add --explain");
    return OkStatus();
  }
  if (!output.empty()) return OkStatus();
  NXDKIT_ASSIGN(const bool word_is_there,
                args.tensor->empty() ? Result<bool>(false) : IsThere(*args.tensor));
  NXDKIT_ASSIGN(const bool input_is_there, input.empty() ? Result<bool>(false) : IsThere(input));
  if (word_is_there && !input_is_there)
    output = std::exchange(input, std::exchange(*args.tensor, ""));
  if (output.empty()) output = "output";
  return OkStatus();
}

Result<ToolAnswer> AnswerExplain(const ops::ConvertRequest& request, const ExplainArgs& args,
                                 ToolContext& context) {
  NXDKIT_TRY(CheckPage(args.html, {request.input}, context));
  const std::string& name = *args.tensor;
  ops::ExplainRequest what{name};
  what.parts = args.html || !name.empty();
  if (context.json() && !name.empty()) what.part_bytes = kJsonPartBytes;
  NXDKIT_ASSIGN(const ops::Explanation plan, ops::Explain(request, what));
  ToolAnswer answer;
  answer.fields = ExplanationJson(plan, name);
  const PictureOptions options = PictureHere();
  answer.text = name.empty() ? FlowsText(plan, options) : SlicesText(plan, options) + plan.text;
  if (args.html) NXDKIT_TRY(AddPage(*args.html, PlanPage(plan, request), answer));
  return answer;
}

}  // namespace nxdkit::tool
