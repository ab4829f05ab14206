#include "formats/ops/verify/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>

#include "formats/kinds/kind.h"
#include "lib/base/text.h"

namespace nxdkit::ops {

namespace {

Finding At(const BoundArtifact& artifact, const TensorLayout& tensor, std::string check,
           std::string message) {
  const LayoutFile& file = artifact.bound.layout.files[tensor.file];
  return Finding(std::move(check), std::move(message))
      .in(file.path)
      .on(tensor.name)
      .at_rank(file.tp_rank < 0 ? std::nullopt : std::optional(file.tp_rank));
}

// Parts and copies of one parameter in different dtypes: rounding one to the other would hide a
// difference.
std::vector<Finding> CheckDtypes(const BoundArtifact& artifact) {
  std::vector<std::optional<Dtype>> dtypes(artifact.params.size());
  std::vector<Finding> findings;
  for (size_t t = 0; t < artifact.bound.stored.size(); ++t) {
    const TensorLayout& tensor = artifact.bound.layout.tensors[t];
    const Dtype dtype = artifact.bound.stored[t].dtype;
    for (const Piece& piece : tensor.pieces) {
      std::optional<Dtype>& first = dtypes[piece.param];
      if (!first) first = dtype;
      if (*first == dtype) continue;
      findings.push_back(
          At(artifact, tensor, "dtype",
             fmt::format("dtype {} here, {} in another part or copy of the parameter", Name(dtype),
                         Name(*first)))
              .of(artifact.params[piece.param].name)
              .differs(std::string(Name(dtype)), std::string(Name(*first))));
      break;
    }
  }
  return findings;
}

Finding Describe(const BoundArtifact& artifact, const std::vector<LogicalTensor>& params,
                 const Difference& difference) {
  const TensorLayout& layout = artifact.bound.layout.tensors[difference.tensor];
  Finding finding =
      At(artifact, layout, "value", "").differs(difference.found, difference.expected);
  finding.count = difference.count;
  const ElementPlace place = PlaceOf(layout, difference.first);
  finding.index = place.param ? place.logical : place.stored;
  if (!place.param) return finding;
  const LogicalTensor& param = params[*place.param];
  finding.param = param.name;
  if (param.head_rows > 0) finding.head = place.logical[param.head_dim] / param.head_rows;
  return finding;
}

std::string CountText(const Finding& finding) { return Counted(finding.count, "element"); }

// Explains a difference between an artifact and its own prediction.
void NameSelfFinding(Finding& finding, const BoundArtifact& artifact, const TensorLayout& layout) {
  constexpr char kHead[] = "lm_head.weight";
  if (finding.param.empty()) {
    finding.check = layout.dtype ? "rank tensor" : "padding";
    finding.message = fmt::format("{} of {} must be {}: found {} at {}", CountText(finding),
                                  layout.dtype ? "the rank tensor" : "padding", finding.expected,
                                  finding.found, ShapeText(finding.index));
    return;
  }
  // If each is stored once, the other copy of an embedding is the head.
  const bool once = artifact.artifact.kind && artifact.artifact.kind->stores_once;
  const bool is_head = layout.name == kHead;
  const bool tied = finding.param != kHead && (is_head || (once && StoresHead(artifact)));
  finding.check = tied ? "tied" : "replica";
  finding.message =
      fmt::format("{} differ{} from {} {}: found {} at {}, expected {}", CountText(finding),
                  finding.count == 1 ? "s" : "", tied ? "the tied" : "the other copy of",
                  tied && !is_head ? kHead : finding.param, finding.found, ShapeText(finding.index),
                  finding.expected);
}

Result<std::vector<Difference>> RunComparison(const Plan& plan, const BoundLayout& expected,
                                              const BoundLayout& actual, const RunOptions& run,
                                              bool only_touched, const std::string& phase,
                                              const CompareSink::Seen& seen = {}) {
  const std::vector<OutputTensor> outputs = StoredAsOutputs(actual);
  NXDKIT_ASSIGN(ExecuteOptions options, MakeExecuteOptions(run, 2));
  if (only_touched) options.base = &actual;
  NXDKIT_ASSIGN(const Executor executor,
                Executor::Make(plan, expected, actual.layout, outputs, options));
  if (run.begin) run.begin(phase, executor.workload().bytes);
  CompareSink sink(actual, outputs, seen);
  NXDKIT_TRY(executor.Run(sink));
  return sink.differences();
}

}  // namespace

std::vector<OutputTensor> StoredAsOutputs(const BoundLayout& bound) {
  std::vector<OutputTensor> outputs;
  for (const StoredTensor& stored : bound.stored)
    outputs.push_back({stored.name, stored.dtype, stored.shape});
  return outputs;
}

Result<Layout> Renumber(const BoundArtifact& expected, const BoundArtifact& actual) {
  std::unordered_map<std::string, uint32_t> index;
  for (uint32_t i = 0; i < expected.params.size(); ++i) index.emplace(expected.params[i].name, i);
  std::vector<uint32_t> map;
  for (const LogicalTensor& param : actual.params) {
    const auto it = index.find(param.name);
    if (it == index.end())
      return Error(Errc::kFindings,
                   fmt::format("the parameter is missing in {}", expected.artifact.path))
          .in(actual.artifact.path)
          .on(param.name);
    const Shape& shape = expected.params[it->second].shape;
    if (shape != param.shape)
      return Error(Errc::kFindings, fmt::format("shape {} here, {} in {}", ShapeText(param.shape),
                                                ShapeText(shape), expected.artifact.path))
          .in(actual.artifact.path)
          .on(param.name);
    map.push_back(it->second);
  }
  if (map.size() != expected.params.size()) {
    std::vector<bool> met(expected.params.size(), false);
    for (uint32_t i : map) met[i] = true;
    for (size_t i = 0; i < met.size(); ++i)
      if (!met[i])
        return Error(Errc::kFindings,
                     fmt::format("the parameter is missing in {}", actual.artifact.path))
            .in(expected.artifact.path)
            .on(expected.params[i].name);
  }
  Layout layout = actual.bound.layout;
  for (TensorLayout& tensor : layout.tensors)
    for (Piece& piece : tensor.pieces) piece.param = map[piece.param];
  return layout;
}

Result<std::vector<Finding>> CheckSelf(const BoundArtifact& artifact, const RunOptions& run) {
  std::vector<Finding> findings = CheckDtypes(artifact);
  if (!findings.empty()) return findings;
  NXDKIT_ASSIGN(const Plan plan, BuildSelfPlan(artifact.params, artifact.bound));
  NXDKIT_ASSIGN(const std::vector<Difference> differences,
                RunComparison(plan, artifact.bound, artifact.bound, run, true,
                              "checking replicas and padding"));
  for (const Difference& difference : differences) {
    findings.push_back(Describe(artifact, artifact.params, difference));
    NameSelfFinding(findings.back(), artifact, artifact.bound.layout.tensors[difference.tensor]);
  }
  return findings;
}

Result<std::vector<Finding>> CompareMasters(const BoundArtifact& training, size_t model_files,
                                            const RunOptions& run) {
  const std::vector<std::optional<OptimizerEntry>>& masters = training.optimizer->masters;
  BoundArtifact weights;  // in their dtypes after rounding the master weights
  weights.bound.layout.files = training.bound.layout.files;
  for (size_t t = 0; t < training.bound.stored.size(); ++t) {
    TensorLayout tensor = training.bound.layout.tensors[t];
    const auto has_master = [&](const Piece& piece) {
      return piece.param < masters.size() && masters[piece.param].has_value();
    };
    if (tensor.file >= model_files || tensor.pieces.empty()) continue;
    if (!std::ranges::all_of(tensor.pieces, has_master)) continue;
    for (Piece& piece : tensor.pieces) piece.param = masters[piece.param]->param;
    weights.bound.Add(std::move(tensor), training.bound.stored[t]);
  }
  NXDKIT_ASSIGN(const Plan plan, BuildPlan(training.params, training.bound, weights.bound.layout));
  NXDKIT_ASSIGN(const std::vector<Difference> differences,
                RunComparison(plan, training.bound, weights.bound, run, false,
                              "comparing weights with master weights"));
  std::vector<Finding> findings;
  for (const Difference& difference : differences) {
    findings.push_back(Describe(weights, training.params, difference));
    Finding& finding = findings.back();
    finding.message = fmt::format(
        "{} {} not the master weight rounded to nearest even: found {} at {}, expected "
        "{}",
        CountText(finding), finding.count == 1 ? "is" : "are", finding.found,
        ShapeText(finding.index), finding.expected);
  }
  return findings;
}

Status RequireSound(const BoundArtifact& artifact, const RunOptions& run) {
  if (artifact.base) NXDKIT_TRY(RequireSound(*artifact.base, run));
  // A merged model has no copies but those of its base and of the adapter.
  if (artifact.merged) return RequireSound(*artifact.merged, run);
  NXDKIT_ASSIGN(const std::vector<Finding> findings, CheckSelf(artifact, run));
  // ckpt-verify checks models only.
  return artifact.lora ? FirstAsError(findings, "") : FirstAsError(findings);
}

Status FirstAsError(const std::vector<Finding>& findings, const char* hint) {
  if (findings.empty()) return OkStatus();
  const Finding& first = findings.front();
  std::string message = first.message;
  if (findings.size() > 1) message += fmt::format("; and {} more tensors", findings.size() - 1);
  Error error(Errc::kCorrupt, std::move(message));
  if (first.rank) error = std::move(error).rank(*first.rank);
  return std::move(error).in(first.file).on(first.tensor).hint(hint);
}

Result<std::vector<Finding>> CompareArtifacts(const BoundArtifact& expected,
                                              const BoundArtifact& actual, const RunOptions& run,
                                              const CompareSink::Seen& seen) {
  BoundArtifact renumbered;  // `actual` in expected's numbering
  NXDKIT_ASSIGN(renumbered.bound.layout, Renumber(expected, actual));
  renumbered.bound.stored = actual.bound.stored;
  // A parameter that `actual` does not store would not be compared at all.
  NXDKIT_TRY(PrimaryPlaces::Find(expected.params, renumbered.bound.layout));
  NXDKIT_ASSIGN(const Plan plan,
                BuildPlan(expected.params, expected.bound, renumbered.bound.layout));
  NXDKIT_ASSIGN(
      const std::vector<Difference> differences,
      RunComparison(plan, expected.bound, renumbered.bound,
                    LessPerThread(run, expected.reading_bytes), false, "comparing", seen));
  std::vector<Finding> findings;
  for (const Difference& difference : differences) {
    findings.push_back(Describe(renumbered, expected.params, difference));
    Finding& finding = findings.back();
    finding.message = fmt::format("{} differ{}: found {} at {}, expected {}", CountText(finding),
                                  finding.count == 1 ? "s" : "", finding.found,
                                  ShapeText(finding.index), finding.expected);
  }
  return findings;
}

}  // namespace nxdkit::ops
