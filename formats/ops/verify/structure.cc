#include "formats/ops/verify/structure.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "formats/kinds/kind.h"

namespace nxdkit::ops {
namespace {

void CheckMissingParams(const BoundArtifact& artifact, std::vector<Finding>& findings) {
  std::set<uint32_t> stored;
  for (const TensorLayout& tensor : artifact.bound.layout.tensors)
    for (const Piece& piece : tensor.pieces) stored.insert(piece.param);
  for (uint32_t i = 0; i < artifact.params.size(); ++i)
    if (!stored.contains(i))
      findings.push_back(Finding("missing", "the parameter is stored nowhere")
                             .in(artifact.artifact.path)
                             .on(artifact.params[i].name)
                             .of(artifact.params[i].name));
  if (!findings.empty()) return;
  const auto places = PrimaryPlaces::Find(artifact.params, artifact.bound.layout);
  if (!places.ok()) findings.push_back(LayoutFinding(places.error()));
}

std::set<std::string> NamesIn(const TensorFile& file) {
  std::set<std::string> names;
  for (const StoredTensor& tensor : file.tensors) names.insert(tensor.name);
  return names;
}

// Names that every rank of a pipeline stage must share.
void CheckRanksAlike(const Artifact& artifact, std::vector<Finding>& findings) {
  const bool has_experts =
      std::ranges::any_of(artifact.ranks, [](const LayoutFile& file) { return file.ep_rank > 0; });
  // By pp and ep rank, from the first tp rank: NxD's converter stores tensors that are not experts'
  // with ep rank 0 only.
  std::map<std::pair<int64_t, int64_t>, std::set<std::string>> of_stage;
  for (size_t f = 0; f < artifact.files.size(); ++f) {
    const TensorFile& file = artifact.files[f];
    const LayoutFile& ranks = artifact.ranks[f];
    if (ranks.tp_rank < 0) return;
    // Expert parallel ranks above 0 of a dense model may be empty.
    if (has_experts && file.tensors.empty()) continue;
    const std::set<std::string> here = NamesIn(file);
    const auto [first, added] =
        of_stage.emplace(std::pair(ranks.pp_rank, std::max<int64_t>(ranks.ep_rank, 0)), here);
    if (added) continue;
    const auto add_all = [&](const std::set<std::string>& names,
                             const std::set<std::string>& others, const char* message) {
      for (const std::string& name : names)
        if (!others.contains(name))
          findings.push_back(
              Finding("ranks", message).in(file.path).on(name).at_rank(ranks.tp_rank));
    };
    add_all(first->second, here, "the tensor is missing on this rank, other ranks have it");
    add_all(here, first->second, "the tensor is on this rank only");
  }
}

using models::Role;

// The head slots of one projection on one rank: slot -> head; padding slots are absent.
using Slots = std::map<int64_t, int64_t>;

struct Attention {
  Slots query, key, value, output;
  std::string file;
  std::string tensor;  // of the query
};

// The number of slots of a rank, for finding key rows behind query rows in a fused tensor.
struct SlotCounts {
  int64_t query = 0;
  int64_t kv = 0;
};

std::optional<SlotCounts> CountsOf(const BoundArtifact& artifact) {
  const Kind& kind = *artifact.artifact.kind;
  const std::optional<models::Placement> placement =
      kind.heads ? kind.heads(artifact) : std::nullopt;
  if (!placement) return std::nullopt;
  return SlotCounts{static_cast<int64_t>((*placement)[0].query.size()),
                    static_cast<int64_t>((*placement)[0].kv.size())};
}

// The stored dimension and first row of the projection inside its tensor.
int64_t FirstRow(Role role, const TensorLayout& tensor, const BoundArtifact& artifact,
                 const SlotCounts& counts, int64_t head_dim) {
  bool has_query = false;
  bool has_key = false;
  for (const Piece& piece : tensor.pieces) {
    has_query |= artifact.model->params[piece.param].role == Role::kQuery;
    has_key |= artifact.model->params[piece.param].role == Role::kKey;
  }
  if (role == Role::kQuery || role == Role::kOutput) return 0;
  int64_t first = has_query ? counts.query * head_dim : 0;
  if (role == Role::kValue && has_key) first += counts.kv * head_dim;
  return first;
}

void AddPiece(Attention& attention, const Piece& piece, const TensorLayout& tensor,
              const BoundArtifact& artifact, const SlotCounts& counts) {
  const models::Param& param = artifact.model->params[piece.param];
  const int64_t head_dim = artifact.model->config.head_dim;
  const int dim = param.role == Role::kOutput ? 1 : 0;
  const int64_t at =
      piece.stored_lo[piece.axes[dim]] - FirstRow(param.role, tensor, artifact, counts, head_dim);
  Slots& slots = param.role == Role::kQuery   ? attention.query
                 : param.role == Role::kKey   ? attention.key
                 : param.role == Role::kValue ? attention.value
                                              : attention.output;
  for (int64_t row = 0; row < piece.logical.extent[dim]; row += head_dim)
    slots[(at + row) / head_dim] = (piece.logical.lo[dim] + row) / head_dim;
}

std::map<std::pair<int64_t, int>, Attention> Collect(const BoundArtifact& artifact,
                                                     const SlotCounts& counts) {
  std::map<std::pair<int64_t, int>, Attention> all;  // by rank and layer
  for (const TensorLayout& tensor : artifact.bound.layout.tensors) {
    const LayoutFile& file = artifact.bound.layout.files[tensor.file];
    for (const Piece& piece : tensor.pieces) {
      if (piece.param >= artifact.model->params.size()) continue;  // carried
      const models::Param& param = artifact.model->params[piece.param];
      const bool heads = param.role == Role::kQuery || param.role == Role::kKey ||
                         param.role == Role::kValue || param.role == Role::kOutput;
      if (!heads || param.shape.size() != 2) continue;
      Attention& attention = all[{file.tp_rank, param.layer}];
      if (param.role == Role::kQuery) {
        attention.file = file.path;
        attention.tensor = tensor.name;
      }
      AddPiece(attention, piece, tensor, artifact, counts);
    }
  }
  return all;
}

Finding Wrong(const Attention& attention, int64_t rank, int64_t head, std::string message) {
  Finding finding =
      Finding("meaning", std::move(message)).in(attention.file).on(attention.tensor).at_rank(rank);
  finding.head = head;
  return finding;
}

std::string SlotText(const Slots& slots, int64_t slot) {
  const auto it = slots.find(slot);
  return it == slots.end() ? "padding" : std::to_string(it->second);
}

}  // namespace

Finding LayoutFinding(const Error& error) {
  std::string message = error.message();
  if (!error.hint().empty()) message += fmt::format(" ({})", error.hint());
  return Finding("layout", std::move(message))
      .in(error.file())
      .on(error.tensor())
      .at_rank(error.rank());
}

std::vector<Finding> CheckStructure(const BoundArtifact& artifact) {
  std::vector<Finding> findings;
  CheckMissingParams(artifact, findings);
  CheckRanksAlike(artifact.artifact, findings);
  const Artifact& opened = artifact.artifact;
  if (opened.config && !opened.config->quant_method.empty())
    findings.push_back(
        Finding("config", fmt::format("quant_method is {}, but no weight is quantised: loaders "
                                      "would treat them as quantised",
                                      opened.config->quant_method))
            .in(opened.config_path));
  return findings;
}

std::vector<Finding> CheckMeaning(const BoundArtifact& artifact) {
  std::vector<Finding> findings;
  if (!artifact.model) return findings;
  const std::optional<SlotCounts> counts = CountsOf(artifact);
  if (!counts) return findings;
  const models::ModelConfig& config = artifact.model->config;
  const int64_t group = config.heads / config.kv_heads;
  for (const auto& [place, attention] : Collect(artifact, *counts)) {
    for (const auto& [slot, head] : attention.query) {
      const int64_t kv_slot = slot * counts->kv / counts->query;
      for (const auto& [what, slots] :
           {std::pair{"key", &attention.key}, {"value", &attention.value}}) {
        const auto it = slots->find(kv_slot);
        if (it == slots->end() || it->second != head / group)
          findings.push_back(
              Wrong(attention, place.first, head,
                    fmt::format("query head {} belongs to {} head {} but sits with {}", head, what,
                                head / group, SlotText(*slots, kv_slot))));
      }
      if (SlotText(attention.output, slot) != std::to_string(head))
        findings.push_back(
            Wrong(attention, place.first, head,
                  fmt::format("o_proj's columns in the slot of query head {} are of {}", head,
                              SlotText(attention.output, slot))));
    }
  }
  return findings;
}

}  // namespace nxdkit::ops
