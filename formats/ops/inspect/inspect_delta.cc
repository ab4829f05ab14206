// A delta: its head says of which model it makes which, and how much changed.
#include "formats/manifest/manifest.h"
#include "formats/ops/inspect/inspect_parts.h"

namespace nxdkit::ops {

Status InspectDelta(Inspection& inspection, const InspectRequest& request) {
  NXDKIT_ASSIGN(const std::shared_ptr<const delta::Delta> delta, delta::Delta::Open(request.path));
  const delta::Head& head = delta->head();
  inspection.form = Form::kDelta;
  inspection.description = "delta: what changed from one version of a model to another";
  inspection.artifact.path = request.path;
  inspection.artifact.files.push_back({request.path, "delta", delta->file_bytes(), {}, {}});
  DeltaFacts& facts = inspection.delta.emplace();
  facts.coding = head.coding;
  facts.parameters = head.params.size();
  for (const delta::Param& param : head.params) {
    facts.elements += param.elements();
    facts.changed += param.changed;
    facts.dense_bytes += param.bytes();
  }
  facts.payload_bytes = delta->payload_bytes();
  facts.base = manifest::DigestText(head.base);
  facts.result = manifest::DigestText(head.result);
  return OkStatus();
}

}  // namespace nxdkit::ops
