#include "formats/kinds/delta/facts_delta.h"

#include "formats/kinds/facts.h"
#include "formats/kinds/table.h"
#include "formats/manifest/manifest.h"
#include "lib/base/text.h"

namespace nxdkit::kinds {

Status DescribeDelta(Survey& survey, const std::string& path, const InputHints&) {
  NXDKIT_ASSIGN(const std::shared_ptr<const delta::Delta> delta, delta::Delta::Open(path));
  const delta::Head& head = delta->head();
  survey.form = kDelta.name;
  survey.description = "delta: what changed from one version of a model to another";
  survey.not_checked = "a delta holds only changes; nxd-convert with --base makes the model";
  survey.artifact.path = path;
  survey.artifact.files.push_back({path, "delta", delta->file_bytes(), {}, {}});
  const auto facts = std::make_shared<DeltaFacts>();
  facts->coding = head.coding;
  facts->parameters = head.params.size();
  for (const delta::Param& param : head.params) {
    facts->elements += param.elements();
    facts->changed += param.changed;
    facts->dense_bytes += param.bytes();
  }
  facts->payload_bytes = delta->payload_bytes();
  facts->base = manifest::DigestText(head.base);
  facts->result = manifest::DigestText(head.result);
  survey.facts = facts;
  return OkStatus();
}

void AddDeltaFacts(KindFacts& facts, const Survey& survey) {
  const DeltaFacts* delta = FactsAs<DeltaFacts>(survey);
  Facts& rows = facts.last;
  if (!delta) return rows.Key("delta", {});
  const char* coding = delta->coding == delta::Coding::kUlp ? "ulp" : "raw";
  rows.Add(
      "changed",
      fmt::format("{} of {} in {}", Grouped(delta->changed), Counted(delta->elements, "element"),
                  Counted(delta->parameters, "parameter")),
      "delta",
      {{"coding", coding},
       {"parameters", delta->parameters},
       {"elements", delta->elements},
       {"changed", delta->changed},
       {"dense_bytes", delta->dense_bytes},
       {"payload_bytes", delta->payload_bytes},
       {"base_digest", delta->base},
       {"result_digest", delta->result}});
  rows.Line("payload", fmt::format("{} of {} dense; coding {}", HumanBytes(delta->payload_bytes),
                                   HumanBytes(delta->dense_bytes), coding));
  rows.Line("base", delta->base);
  rows.Line("result", delta->result);
}

}  // namespace nxdkit::kinds
