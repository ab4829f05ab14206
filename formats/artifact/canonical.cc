#include "formats/artifact/canonical.h"

#include "lib/base/errors.h"

namespace nxdkit::artifact {

std::vector<TensorLayout> WholeTensors(const BoundArtifact& source) {
  std::vector<TensorLayout> tensors;
  for (uint32_t i = 0; i < source.params.size(); ++i)
    tensors.push_back(WholeTensor(source.params[i].name, 0, i, source.params[i].shape));
  return tensors;
}

Result<std::vector<Dtype>> ParamDtypes(const BoundArtifact& source, std::optional<Dtype> wanted,
                                       bool downcast) {
  NXDKIT_ASSIGN(const PrimaryPlaces places,
                PrimaryPlaces::Find(source.params, source.bound.layout));
  std::vector<Dtype> dtypes;
  for (uint32_t i = 0; i < source.params.size(); ++i) {
    std::optional<Dtype> dtype;
    // An optimizer's entries are not weights: they stay as they are.
    const bool is_weight = i < source.model_params();
    const auto made = [&](Dtype d) { return downcast && is_weight ? Downcast(d) : d; };
    for (const PrimaryPlaces::Place& place : places.of(i)) {
      const Dtype stored = source.bound.stored[place.tensor].dtype;
      if (dtype && made(*dtype) != made(stored) && !wanted)
        return Unsupported("stored partly as {} and partly as {}", Name(*dtype), Name(stored))
            .on(source.params[i].name)
            .hint("convert it to one dtype: nxd-convert --dtype");
      dtype = stored;
    }
    if (!dtype) dtype = Dtype::kF32;
    if (i < source.own_dtypes.size() && source.own_dtypes[i]) dtype = source.own_dtypes[i];
    dtype = made(*dtype);
    dtypes.push_back(wanted && is_weight && Info(*dtype).floating ? *wanted : *dtype);
  }
  return dtypes;
}

Result<CanonicalPlan> PlanCanonical(const BoundArtifact& source) {
  CanonicalPlan out;
  out.layout.files.push_back({});
  out.layout.tensors = WholeTensors(source);
  NXDKIT_ASSIGN(out.plan, BuildPlan(source.params, source.bound, out.layout));
  NXDKIT_ASSIGN(const std::vector<Dtype> dtypes, ParamDtypes(source, std::nullopt));
  for (size_t i = 0; i < dtypes.size(); ++i)
    out.outputs.push_back({source.params[i].name, dtypes[i], source.params[i].shape});
  return out;
}

Status RunPlan(const CanonicalPlan& plan, const BoundLayout& source, const ExecuteOptions& options,
               const RunOptions& run, const std::string& phase, Sink& sink) {
  NXDKIT_ASSIGN(const Executor executor,
                Executor::Make(plan.plan, source, plan.layout, plan.outputs, options));
  if (run.begin) run.begin(phase, executor.workload().bytes);
  return executor.Run(sink);
}

Status CanonicalReader::Read(size_t param, uint64_t offset, std::span<std::byte> to,
                             Gatherer& gatherer) const {
  return gatherer.Read(plan_.plan.tensors[param], bound_, plan_.outputs[param], offset, to);
}

}  // namespace nxdkit::artifact
