#include "formats/ops/inspect/inspect.h"

#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "formats/kinds/torch/facts_torch.h"
#include "formats/nxd/refuse.h"
#include "formats/ops/inspect/compiled.h"
#include "formats/ops/inspect/layout.h"
#include "formats/ops/inspect/tensors.h"
#include "formats/ops/inspect/training.h"
#include "lib/system/look.h"

namespace nxdkit::ops {
namespace {

// What holds no model's weights, and so is no Kind.
struct Special {
  Result<bool> (*is)(const std::string& path);
  Status (*inspect)(Inspection& inspection, const InspectRequest& request);
};
constexpr Special kSpecial[] = {
    {LooksLikeNeff, InspectNeff},
    {neff::LooksLikeCache, InspectCache},
    {LooksLikeAdapter, InspectAdapter},
    {[](const std::string& path) { return nxd::IsOptimizerFolder(path); }, InspectOptimizer}};

// nullptr: it is none of them.
Result<const Special*> FindSpecial(const std::string& path) {
  for (const Special& special : kSpecial) {
    NXDKIT_ASSIGN(const bool is, special.is(path));
    if (is) return &special;
  }
  return nullptr;
}

// A file of changes alone, whatever its name says; nothing can be said of the base here. nullptr:
// it is none.
Result<const Kind*> FindChanges(const std::string& path) {
  for (const Kind* kind : Kinds()) {
    if (!kind->reads_base || !kind->is_file) continue;
    NXDKIT_ASSIGN(const bool is, kind->is_file(path));
    if (is) return kind;
  }
  return nullptr;
}

Status OpenAsKind(Inspection& inspection, const Kind& kind, const InspectRequest& request) {
  NXDKIT_ASSIGN(const bool folder, inspection.artifact.look.IsFolder(request.path));
  if (folder) NXDKIT_TRY(DescribeTrainer(inspection, request.path));
  NXDKIT_TRY(kind.describe ? kind.describe(inspection, request.path, request.hints)
                           : SurveyWhole(inspection, kind, request.path, request.hints));
  if (inspection.form == kTorchProgram) return InspectProgram(inspection, request);
  return AddBlobs(inspection, request);
}

Status Open(Inspection& inspection, const InspectRequest& request) {
  if (request.kind) return OpenAsKind(inspection, *request.kind, request);
  NXDKIT_ASSIGN(const Special* const special, FindSpecial(request.path));
  NXDKIT_ASSIGN(const Kind* const changes,
                special ? Result<const Kind*>(nullptr) : FindChanges(request.path));
  if (special || changes) NXDKIT_TRY(CheckNoHints(request.path, request.hints));
  if (special) return special->inspect(inspection, request);
  NXDKIT_ASSIGN(const Kind* const kind, changes
                                            ? Result<const Kind*>(changes)
                                            : Recognise(request.path, inspection.artifact.look));
  return OpenAsKind(inspection, *kind, request);
}

}  // namespace

Result<Inspection> Inspect(const InspectRequest& asked) {
  Inspection inspection;
  InspectRequest request = asked;
  request.hints.config_optional = true;  // what is there is shown
  NXDKIT_TRY(Open(inspection, request));
  const std::vector<std::string>& warnings = inspection.artifact.warnings;
  inspection.warnings.insert(inspection.warnings.end(), warnings.begin(), warnings.end());
  CountTensors(inspection);
  NXDKIT_TRY(InspectLayout(inspection, request));
  inspection.mount = MountOf(request.path);
  return inspection;
}

}  // namespace nxdkit::ops
