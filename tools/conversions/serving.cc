#include "tools/conversions/serving.h"

#include <fmt/format.h>

#include "formats/vllm_neuron/geometry.h"
#include "lib/base/text.h"
#include "tools/conversions/findings.h"

namespace nxdkit::tool {
namespace {

Json LoadJson(const ops::LoadedParam& load) {
  return {{"name", load.name},
          {"shape", load.shape},
          {"dtype", Name(load.dtype)},
          {"from", load.from},
          {"zero_cores", load.zero_cores}};
}

Json ServingJson(const ops::ServeRequest& request, const ops::ServeReport& report) {
  Json loads = Json::array();
  for (const ops::LoadedParam& load : report.loads) loads.push_back(LoadJson(load));
  return {{"engine", "vllm-neuron"},
          {"derived", vllm_neuron::kDerived},
          {"assumed", report.assumed},
          {"tp", request.geometry.tp},
          {"ep", request.geometry.ep},
          {"attention_dp", request.geometry.attention_dp},
          {"target", vllm_neuron::TargetName(request.target)},
          {"dtype", Name(report.dtype)},
          {"least_bytes", report.least_bytes},
          {"most_bytes", report.most_bytes},
          {"parameters", std::move(loads)}};
}

std::string LoadText(const ops::LoadedParam& load) {
  return fmt::format("{} {} {} from {}", load.name, Name(load.dtype), ShapeText(load.shape),
                     fmt::join(load.from, ", "));
}

}  // namespace

ToolAnswer ServingAnswer(const ops::ServeRequest& request, const ops::ServeReport& report,
                         ToolContext& context) {
  for (const ops::LoadedParam& load : report.loads) context.Detail(EscapeControl(LoadText(load)));
  if (!report.assumed.empty()) context.Warn(report.assumed);
  Json fields = {{"path", request.path},
                 {"kind", report.kind->name},
                 {"model_type", report.model_type},
                 {"tensors", report.tensors},
                 {"parameters", report.parameters},
                 {"ranks", report.ranks},
                 {"checks", report.checks},
                 {"findings", FindingsJson(report.findings)},
                 {"loader", Json()},
                 {"serving", ServingJson(request, report)}};
  const std::string good = fmt::format(
      "vLLM Neuron's loader takes the weights on {} cores, {}; KV cache and compiled "
      "graphs were not judged",
      report.ranks, Name(report.dtype));
  return {fmt::format("# {}\n", vllm_neuron::kDerived) +
              FindingsText(report.checks, report.findings, request.path, good.c_str()),
          std::move(fields), !report.findings.empty()};
}

}  // namespace nxdkit::tool
