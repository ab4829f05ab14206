#include "formats/kinds/dcp/facts_dcp.h"

#include <array>

#include "formats/dcp/folder.h"
#include "formats/kinds/dcp/read_dcp.h"
#include "formats/kinds/facts.h"
#include "formats/kinds/table.h"
#include "lib/base/text.h"

namespace nxdkit::kinds {
namespace {

constexpr std::array kDescriptions = {
    "torch distributed checkpoint", "torch distributed checkpoint, one for each rank",
    "torch distributed checkpoint, files of ranks (torch_checkpointing)",
    "torch distributed checkpoint, shards of safetensors",
    "checkpoint of transformers: weights, and a torch distributed checkpoint of their "
    "optimizer"};  // by dcp::FolderForm

}  // namespace

Status DescribeDcp(Survey& survey, const std::string& path, const InputHints& hints) {
  NXDKIT_TRY(SurveyWhole(survey, kDcp, path, hints));
  const dcp::Folder& folder = *DcpFolderOf(survey.artifact);
  survey.description = kDescriptions[static_cast<size_t>(folder.form)];
  const auto facts = std::make_shared<DcpFacts>();
  facts->tensors = folder.tensors.size();
  for (const dcp::StoredEntry& entry : folder.tensors) facts->chunks += entry.chunks.size();
  for (const dcp::ObjectEntry& object : folder.metadata.objects)
    facts->objects.push_back(object.key);
  survey.facts = facts;
  return OkStatus();
}

void AddDcpFacts(KindFacts& facts, const Survey& survey) {
  const DcpFacts* dcp = FactsAs<DcpFacts>(survey);
  if (!dcp) return facts.last.Key("dcp", {});
  facts.last.Add("entries",
                 fmt::format("{} in {}, {}", Counted(dcp->tensors, "tensor"),
                             Counted(dcp->chunks, "chunk"), Counted(dcp->objects.size(), "object")),
                 "dcp",
                 {{"tensors", dcp->tensors}, {"chunks", dcp->chunks}, {"objects", dcp->objects}});
  if (!dcp->objects.empty()) facts.last.Line("objects", Joined(dcp->objects, Short));
}

}  // namespace nxdkit::kinds
