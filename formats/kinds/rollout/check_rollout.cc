#include "formats/kinds/rollout/read_rollout.h"

#include <fmt/core.h>

#include <unordered_set>

#include "formats/kinds/bind.h"
#include "formats/kinds/rollout/compiled_model.h"
#include "formats/kinds/rollout/rollout_state.h"
#include "formats/rollout/cpu_plan.h"
#include "lib/system/file.h"
#include "lib/system/paths.h"

namespace nxdkit::kinds {
namespace {

// Checks one rank's file of a bundle.
void CheckRolloutFile(const BoundArtifact& artifact, size_t f, std::optional<Dtype> dtype,
                      std::vector<Finding>& findings) {
  const TensorFile& file = artifact.artifact.files[f];
  const auto rank = static_cast<int>(artifact.artifact.ranks[f].tp_rank);
  const auto add = [&](const char* check, const std::string& name, std::string message) {
    findings.push_back(Finding(check, std::move(message)).in(file.path).on(name).at_rank(rank));
  };
  for (const StoredTensor& tensor : file.tensors)
    if (dtype && Info(tensor.dtype).floating && tensor.dtype != *dtype)
      add("dtype", tensor.name,
          fmt::format("dtype {} found, neuron_config.json says {}", Name(tensor.dtype),
                      Name(*dtype)));
  const auto expected = rollout::RankTensors(*artifact.model, *RolloutGeometryOf(artifact), rank);
  if (!expected.ok()) return;
  std::unordered_set<std::string_view> here;
  for (const StoredTensor& tensor : file.tensors) here.insert(tensor.name);
  for (const TensorLayout& tensor : *expected)
    if (!here.contains(tensor.name)) add("missing", tensor.name, "the tensor is missing");
}

void CheckRolloutTensors(const BoundArtifact& artifact, std::vector<Finding>& findings) {
  const auto& config = BundleOf(artifact.artifact)->config;
  if (!config)
    findings.push_back(
        Finding("config", "neuron_config.json is missing: no engine can load the bundle")
            .in(artifact.artifact.path));
  const auto dtype = config ? DtypeFromTorchName(config->torch_dtype) : std::optional<Dtype>();
  for (size_t f = 0; f < artifact.artifact.files.size(); ++f)
    CheckRolloutFile(artifact, f, dtype, findings);
}

// The differences between the bundle's plan and its configurations.
Result<std::vector<Finding>> ComparePlan(const rollout::Bundle& bundle, const std::string& path) {
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, models::kMaxConfigBytes));
  NXDKIT_ASSIGN(const rollout::CpuPlan plan, rollout::ParseCpuPlan(text, path));
  NXDKIT_ASSIGN(const ConfigText config, CompiledModel(bundle));
  NXDKIT_ASSIGN(const models::ModelConfig model, models::ParseConfig(config.text, config.path));
  if (model.family == nullptr) return std::vector<Finding>();  // its heads are not known
  NXDKIT_ASSIGN(const rollout::CpuPlan expected,
                rollout::MakeCpuPlan(model, config.text, *bundle.config, bundle.config_text));
  std::vector<Finding> findings;
  const auto compare = [&](const char* key, const auto& found, const auto& wanted) {
    if (found == wanted) return;
    const std::string a = fmt::format("{}", found), b = fmt::format("{}", wanted);
    findings.push_back(
        Finding("cpu plan",
                fmt::format("{}: {} in the plan, the bundle's configurations give {}", key, a, b))
            .in(path)
            .differs(a, b));
  };
  compare("config_digest", plan.config_digest, expected.config_digest);
  compare("neuron_config_digest", plan.neuron_config_digest, expected.neuron_config_digest);
  compare("tp", plan.tp, expected.tp);
  compare("batch_size", plan.batch_size, expected.batch_size);
  compare("sequence_length", plan.sequence_length, expected.sequence_length);
  compare("dtype", plan.dtype, expected.dtype);
  compare("fused_qkv", plan.fused_qkv, expected.fused_qkv);
  compare("gqa_strategy", models::GqaStrategyName(plan.gqa), models::GqaStrategyName(expected.gqa));
  compare("layers", plan.layers, expected.layers);
  compare("head_dim", plan.head_dim, expected.head_dim);
  compare("query_slots", plan.query_slots, expected.query_slots);
  compare("kv_slots", plan.kv_slots, expected.kv_slots);
  return findings;
}

}  // namespace

std::vector<Finding> CheckRollout(const BoundArtifact& bound) {
  std::vector<Finding> findings;
  CheckRolloutTensors(bound, findings);
  for (Finding& finding : CheckCpuPlan(*BundleOf(bound.artifact)))
    findings.push_back(std::move(finding));
  return findings;
}

void NameRolloutChecks(const BoundArtifact& bound, uint64_t ranks,
                       std::vector<std::string>& checks) {
  checks.push_back("replicas are bit-equal, padding is zero");
  checks.push_back("rank tensors hold their rank");
  NameMeaning(bound, ranks, "", checks);
}

std::vector<Finding> CheckCpuPlan(const rollout::Bundle& bundle) {
  if (!bundle.has_cpu_plan || !bundle.config) return {};
  const std::string path = JoinPath(bundle.folder, std::string(rollout::kCpuPlanFile));
  Result<std::vector<Finding>> found = ComparePlan(bundle, path);
  if (found.ok()) return *std::move(found);
  const Error& error = found.error();
  const std::string place = error.member().empty() ? "" : error.member() + ": ";
  return {Finding("cpu plan", place + error.message()).in(path)};
}

}  // namespace nxdkit::kinds
