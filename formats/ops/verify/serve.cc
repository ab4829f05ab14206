#include "formats/ops/verify/serve.h"

#include "formats/ops/verify/serve_layout.h"
#include "formats/ops/verify/serve_names.h"
#include "formats/ops/verify/serve_scales.h"
#include "formats/ops/verify/serve_scheme.h"
#include "formats/ops/verify/serve_values.h"
#include "formats/vllm/engine_layout.h"
#include "formats/vllm_neuron/rank_tensors.h"

namespace nxdkit::ops {
namespace {

void Describe(const ServedFolder& folder, const models::Model& model, const ServeRequest& request,
              ServeReport& report) {
  report.kind = &kHf;
  report.AddSaid(folder.artifact);
  report.model_type = model.config.model_type;
  report.dtype = request.dtype.value_or(vllm::EngineDtype(model.config));
  report.tensors = folder.artifact.tensor_count();
  report.ranks = static_cast<uint64_t>(request.geometry.cores());
  report.assumed = vllm_neuron::Assumed(request.geometry);
  for (const models::Param& param : model.params)
    report.parameters += static_cast<uint64_t>(ElementCount(param.shape).value_or(0));
  report.findings = folder.findings;
  const std::string fault = vllm_neuron::DtypeFault(model.config, report.dtype);
  if (!fault.empty()) report.warnings.push_back(fault);
}

}  // namespace

Result<ServeReport> JudgeServing(const ServeRequest& request) {
  NXDKIT_TRY(vllm_neuron::CheckCores(request.geometry));
  NXDKIT_ASSIGN(const ServedFolder folder, OpenServedFolder(request.path, request.hints));
  NXDKIT_ASSIGN(const models::Model model,
                models::MakeModel(*folder.artifact.config).in(folder.artifact.config_path));
  NXDKIT_TRY(vllm_neuron::CheckKnown(model).in(folder.artifact.config_path));
  ServeReport report;
  Describe(folder, model, request, report);
  NXDKIT_ASSIGN(const ServedScheme scheme, ReadServedScheme(folder, model));
  NXDKIT_TRY(CheckServedNames(folder, model, scheme, report));
  CheckServedScheme(folder, model, scheme, report);
  NXDKIT_TRY(CheckServedLayout(folder, model, scheme, request, report));
  NXDKIT_TRY(CheckServedScales(folder, model, scheme, report));
  NXDKIT_TRY(CheckServedValues(folder, model, scheme, request, report));
  return report;
}

}  // namespace nxdkit::ops
