#include "formats/ops/digest/engine_check.h"

#include <set>
#include <span>

#include "formats/manifest/manifest.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::ops {
namespace {

using Answer = std::map<std::string, std::string>;

constexpr std::string_view kExperts = ".routed_experts.";

struct Key {
  int rank = 0;
  std::string name;
};

// "dp0:pp0:pcp0:tp3:model.norm.weight"
Result<Key> ParseKey(const std::string& key) {
  constexpr std::string_view kBefore = "dp0:pp0:pcp0:tp";
  const size_t colon = key.find(':', std::min(kBefore.size(), key.size()));
  const std::optional<int> rank =
      key.starts_with(kBefore) && colon != std::string::npos
          ? ParseNumber<int>(std::string_view(key).substr(kBefore.size(), colon - kBefore.size()))
          : std::nullopt;
  if (!rank || *rank < 0)
    return Unsupported(
        "the engine answers for {}: only tensor parallel ranks of one pipeline stage and one data "
        "parallel replica can be compared",
        EscapeControl(key));
  return Key{*rank, key.substr(colon + 1)};
}

Result<int> RanksOf(const Answer& answered) {
  std::set<int> ranks;
  for (const auto& [key, digest] : answered) {
    NXDKIT_ASSIGN(const Key parsed, ParseKey(key));
    ranks.insert(parsed.rank);
  }
  if (ranks.empty()) return Corrupt("the engine answers for no parameter");
  if (*ranks.rbegin() + 1 != static_cast<int>(ranks.size()))
    return Corrupt("the engine answers for {}, the last of which is {}",
                   Counted(ranks.size(), "rank"), *ranks.rbegin());
  return static_cast<int>(ranks.size());
}

// Whether kernels keep the weight only in another form: true of linear layers, the router included.
// Norms, biases and embeddings stay as they are.
bool IsPacked(const std::string& key) {
  return key.ends_with("_proj.weight") || key.ends_with(".gate.weight");
}

Finding FindingOn(const std::string& key, std::string message) {
  Finding finding("engine", std::move(message));
  if (const auto place = vllm_neuron::ParseParamKey(key))
    return std::move(finding).on(place->name).at_rank(place->core.rank);
  const Result<Key> parsed = ParseKey(key);
  return parsed.ok() ? std::move(finding).on(parsed->name).at_rank(parsed->rank)
                     : std::move(finding).on(key);
}

}  // namespace

KeyedDigests KeyedDigestsOf(const std::vector<EngineParam>& params) {
  KeyedDigests out;
  for (const EngineParam& param : params)
    out.emplace_back(vllm::CheckerKey(param.rank, param.name), HexText(param.digest));
  return out;
}

KeyedDigests KeyedDigestsOf(const std::vector<EngineParam>& params,
                            const vllm_neuron::Geometry& geometry) {
  KeyedDigests out;
  for (const EngineParam& param : params)
    out.emplace_back(vllm_neuron::ParamKey(geometry, param.rank, param.name),
                     HexText(param.digest));
  return out;
}

Status CheckPredictable(const models::Model& model, const EngineGeometry& geometry, Dtype dtype) {
  if (const auto* neuron = std::get_if<vllm_neuron::Geometry>(&geometry))
    return CheckForNeuron(model, *neuron, dtype);
  NXDKIT_TRY(vllm::RankTensors(model, std::get<vllm::Geometry>(geometry), 0));
  return OkStatus();
}

Result<KeyedDigests> PredictEngine(const BoundArtifact& artifact, const EngineGeometry& geometry,
                                   Dtype dtype, const RunOptions& run) {
  if (const auto* neuron = std::get_if<vllm_neuron::Geometry>(&geometry)) {
    NXDKIT_ASSIGN(const auto params, DigestForNeuron(artifact, *neuron, dtype, run));
    return KeyedDigestsOf(params, *neuron);
  }
  NXDKIT_ASSIGN(const auto params,
                DigestForEngine(artifact, std::get<vllm::Geometry>(geometry), dtype, run));
  return KeyedDigestsOf(params);
}

std::string DigestOfAll(KeyedDigests digests) {
  std::ranges::sort(digests);
  Sha256 hash;
  for (const auto& [key, digest] : digests) {
    const std::string line = key + ' ' + digest + '\n';
    hash.Update(std::as_bytes(std::span(line)));
  }
  return manifest::DigestText(hash.Finish());
}

EngineComparison CompareEngine(const KeyedDigests& expected, const Answer& answered) {
  const std::string empty = HexText(Sha256().Finish());
  const bool packs =
      std::ranges::any_of(answered, [&](const auto& entry) { return entry.second == empty; });
  EngineComparison out;
  std::set<std::string> known;
  for (const auto& [key, digest] : expected) {
    known.insert(key);
    const auto found = answered.find(key);
    if (found == answered.end())
      out.findings.push_back(FindingOn(key, "the engine has no such parameter"));
    else if (found->second == digest)
      ++out.compared;
    else if ((found->second == empty && IsPacked(key)) ||
             (packs && key.find(kExperts) != std::string::npos))
      ++out.not_covered;
    else
      out.findings.push_back(
          FindingOn(key, "the engine holds different bytes").differs(found->second, digest));
  }
  for (const auto& [key, digest] : answered)
    if (!known.contains(key))
      out.findings.push_back(
          FindingOn(key, "the engine has it, and nothing of the model fills it"));
  return out;
}

Result<EngineCheck> CheckEngine(const EngineRequest& request, const Answer& answered) {
  EngineRequest asked = request;
  NXDKIT_ASSIGN(asked.geometry.tp, RanksOf(answered));
  asked.geometry.expert_parallel = false;
  const auto compare = [&]() -> Result<EngineCheck> {
    EngineCheck check;
    check.geometry = asked.geometry;
    NXDKIT_ASSIGN(check.expected, DigestForEngine(asked));
    static_cast<EngineComparison&>(check) =
        CompareEngine(KeyedDigestsOf(check.expected.params), answered);
    return check;
  };
  Result<EngineCheck> cut = compare();
  const bool has_experts = std::ranges::any_of(
      answered, [](const auto& entry) { return entry.first.find(kExperts) != std::string::npos; });
  const bool clean = cut.ok() && cut->findings.empty() && cut->not_covered == 0;
  if (clean || !has_experts || asked.geometry.tp == 1) return cut;
  // The names do not show whether experts are cut or whole.
  asked.geometry.expert_parallel = true;
  Result<EngineCheck> whole = compare();
  if (!whole.ok()) return cut;
  return !cut.ok() || whole->compared > cut->compared ? whole : cut;
}

}  // namespace nxdkit::ops
