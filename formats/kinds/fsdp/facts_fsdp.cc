#include "formats/kinds/fsdp/facts_fsdp.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "formats/kinds/dcp/lora_dcp.h"
#include "formats/kinds/facts.h"
#include "formats/kinds/fsdp/fsdp_state.h"
#include "formats/kinds/table.h"
#include "lib/base/text.h"

namespace nxdkit::kinds {
namespace {

using fsdp::FilePart;

// The number of tensors with each placement: "Shard(0)", "Replicate, Shard(0)".
std::map<std::string, size_t> PlacementsOf(const fsdp::Facts& facts) {
  std::map<std::string, size_t> counts;
  for (const fsdp::ModelTensor& tensor : facts.tensors) {
    const std::string text =
        tensor.placed ? dtensor::PlacementText(tensor.placements) : "whole on each rank";
    ++counts[text.empty() ? "boxes" : text];
  }
  return counts;
}

std::string MeshText(const dtensor::DeviceMesh& mesh) {
  std::string text;
  for (size_t d = 0; d < mesh.shape.size(); ++d)
    text += fmt::format("{}{}{}", d == 0 ? "" : " x ",
                        d < mesh.names.size() ? mesh.names[d] + " " : "", mesh.shape[d]);
  return mesh.device.empty() ? text : fmt::format("{} on {}", text, mesh.device);
}

std::string_view ReleasesOf(dtensor::MeshForm form) {
  switch (form) {
    case dtensor::MeshForm::kGroupInfos:
      return "2.4 to 2.7";
    case dtensor::MeshForm::kGroupNames:
      return "2.8 to 2.9";
    case dtensor::MeshForm::kLayout:
      return "2.10 to 2.12";
    case dtensor::MeshForm::kAxes:
      return "2.13 or later";
  }
  return "";
}

Json MeshJson(const fsdp::Facts& facts) {
  if (!facts.mesh) return nullptr;
  return {{"shape", facts.mesh->shape},
          {"names", facts.mesh->names},
          {"device", facts.mesh->device},
          {"torch", ReleasesOf(facts.mesh->form)}};
}

std::string FilesText(const fsdp::RankSet& set) {
  std::string text;
  for (const FilePart part : {FilePart::kModel, FilePart::kOptimizer, FilePart::kExtraState}) {
    const std::vector<int>& there = set.of(part);
    const std::string ranks = there.empty()       ? "none"
                              : set.IsWhole(part) ? "all"
                                                  : fsdp::RanksText(there);
    text += fmt::format("{}{} of {}", text.empty() ? "" : ", ",
                        fsdp::kPartNames[static_cast<size_t>(part)], ranks);
  }
  return text;
}

}  // namespace

Status DescribeFsdp(Survey& survey, const std::string& path, const InputHints& hints) {
  NXDKIT_TRY(SurveyWhole(survey, kFsdp, path, hints));
  const fsdp::Facts& facts = *FsdpFactsOf(survey.artifact);
  survey.description =
      fmt::format("rank files of an FSDP run of {}", Counted(facts.set.world, "rank"));
  if (!facts.set.IsWhole(FilePart::kModel)) {
    survey.is_whole = false;
    survey.not_checked = "some ranks are missing";
  }
  survey.facts = std::make_shared<FsdpFacts>(facts);
  return OkStatus();
}

void AddFsdpFacts(KindFacts& facts, const Survey& survey) {
  const FsdpFacts* state = FactsAs<FsdpFacts>(survey);
  if (!state) return facts.last.Key("fsdp", {});
  const fsdp::Facts& found = state->facts;
  const auto [least, most] = std::ranges::minmax(found.rank_bytes);
  facts.last.Line("ranks", fmt::format("{} ({})", found.set.world, FilesText(found.set)));
  if (found.mesh)
    facts.last.Line("mesh", fmt::format("{}, saved by torch {}", MeshText(*found.mesh),
                                        ReleasesOf(found.mesh->form)));
  const auto placements = PlacementsOf(found);
  facts.last.Line("placements", Joined(placements, [](const auto& item) {
                    return fmt::format("{} {}", item.second, item.first);
                  }));
  facts.last.Line("each rank", least == most
                                   ? HumanBytes(least)
                                   : fmt::format("{} to {}", HumanBytes(least), HumanBytes(most)));
  if (found.form != fsdp::OptimizerForm::kNone)
    facts.last.Line("optimizer", fmt::format("{}, {} of parameters", FormName(found.form),
                                             Counted(found.groups.size(), "group")));
  const auto adapter = std::ranges::count_if(
      found.tensors, [](const fsdp::ModelTensor& tensor) { return IsOfAdapter(tensor.name); });
  if (adapter > 0)
    facts.last.Line("adapter",
                    fmt::format("LoRA, {} of {}; --lora chooses what is read", Grouped(adapter),
                                Counted(found.tensors.size(), "tensor")));
  facts.last.Key("fsdp", {{"world_size", found.set.world},
                          {"mesh", MeshJson(found)},
                          {"placements",
                           ArrayOf(placements,
                                   [](const auto& item) -> Json {
                                     return {{"placement", item.first}, {"tensors", item.second}};
                                   })},
                          {"optimizer_form", FormName(found.form)},
                          {"adapter_tensors", adapter},
                          {"rank_bytes", found.rank_bytes}});
}

}  // namespace nxdkit::kinds
