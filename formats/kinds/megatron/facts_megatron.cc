#include "formats/kinds/megatron/facts_megatron.h"

#include <fmt/format.h>

#include "formats/kinds/facts.h"
#include "formats/kinds/megatron/megatron_state.h"
#include "formats/kinds/table.h"
#include "formats/megatron/keys.h"
#include "lib/base/text.h"

namespace nxdkit::kinds {
namespace {

using megatron::Key;

std::string FormOfOptimizer(const dcp::Folder& folder) {
  size_t states = 0, buckets = 0;
  for (const dcp::StoredEntry& entry : folder.tensors) {
    const Key key = megatron::ParseKey(entry.key);
    states += key.kind == Key::Kind::kState;
    buckets += key.kind == Key::Kind::kBucket;
  }
  if (buckets > 0) return "flat buckets";
  return states > 0 ? "by parameters" : "none";
}

std::string LayersOf(const dcp::Folder& folder) {
  bool stacked = false, numbered = false;
  for (const dcp::StoredEntry& entry : folder.tensors) {
    const Key key = megatron::ParseKey(entry.key);
    if (key.kind != Key::Kind::kWeight || !key.in_layer) continue;
    (key.layer ? numbered : stacked) = true;
  }
  if (stacked && numbered) return "stacked and numbered";
  return stacked ? "stacked" : numbered ? "numbered" : "";
}

void Count(const dcp::Folder& folder, MegatronFacts& facts) {
  facts.tensors = folder.tensors.size();
  for (const dcp::StoredEntry& entry : folder.tensors) facts.chunks += entry.chunks.size();
  for (const dcp::ObjectEntry& object : folder.metadata.objects)
    if (object.key.find("._extra_state/") != std::string::npos)
      ++facts.extra_states;
    else
      facts.objects.push_back(object.key);
}

}  // namespace

Status DescribeMegatron(Survey& survey, const std::string& path, const InputHints& hints) {
  NXDKIT_TRY(SurveyWhole(survey, kMegatronDist, path, hints));
  const MegatronState& state = *MegatronStateOf(survey.artifact);
  const auto facts = std::make_shared<MegatronFacts>();
  facts->layout = state.found.layout;
  facts->layers = LayersOf(*state.stored);
  facts->optimizer = FormOfOptimizer(*state.stored);
  facts->common = state.common.file;
  facts->has_args = state.common.has_args;
  facts->iteration = state.common.iteration;
  facts->tp = state.common.Number("tensor_model_parallel_size");
  facts->pp = state.common.Number("pipeline_model_parallel_size");
  facts->ep = state.common.Number("expert_model_parallel_size");
  Count(*state.stored, *facts);
  survey.description = "Megatron-Core distributed checkpoint (torch_dist)";
  survey.facts = facts;
  return OkStatus();
}

void AddMegatronFacts(KindFacts& facts, const Survey& survey) {
  const MegatronFacts* found = FactsAs<MegatronFacts>(survey);
  if (!found) return facts.last.Key("megatron_dist", {});
  std::string run = found->layout;
  if (found->iteration) run += fmt::format(", iteration {}", *found->iteration);
  const auto add = [&](const char* name, const std::optional<int64_t>& size) {
    if (size) run += fmt::format(", {} {}", name, *size);
  };
  add("tp", found->tp);
  add("pp", found->pp);
  add("ep", found->ep);
  facts.last.Line("run", run);
  facts.last.Line("entries", fmt::format("{} in {}; layers {}", Counted(found->tensors, "tensor"),
                                         Counted(found->chunks, "chunk"), found->layers));
  facts.last.Line("optimizer", found->optimizer);
  if (!found->has_args)
    facts.last.Line("arguments", found->common.empty()
                                     ? "none: there is no common.pt"
                                     : "none in the common state: only config.json has sizes");
  if (found->extra_states + found->objects.size() > 0)
    facts.last.Line(
        "not read",
        fmt::format("{} _extra_state, {} other objects{}", found->extra_states,
                    found->objects.size(),
                    found->objects.empty() ? "" : ": " + Joined(found->objects, Short)));
  facts.last.Key("megatron_dist", {{"layout", found->layout},
                                   {"iteration", OrNull(found->iteration)},
                                   {"tp", OrNull(found->tp)},
                                   {"pp", OrNull(found->pp)},
                                   {"ep", OrNull(found->ep)},
                                   {"layers", found->layers},
                                   {"optimizer_form", found->optimizer},
                                   {"arguments", found->has_args},
                                   {"tensors", found->tensors},
                                   {"chunks", found->chunks},
                                   {"extra_states", found->extra_states},
                                   {"objects", found->objects}});
}

}  // namespace nxdkit::kinds
