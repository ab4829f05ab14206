#include "formats/ops/inspect/inspect.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "formats/kinds/nxd/nxd_options.h"
#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "formats/kinds/torch/facts_torch.h"
#include "formats/nxd/refuse.h"
#include "formats/ops/inspect/compiled.h"
#include "formats/ops/inspect/tensors.h"
#include "formats/ops/inspect/training.h"
#include "lib/system/look.h"

namespace nxdkit::ops {
namespace {

// A form that holds no model's weights, and so is not a Kind.
struct Special {
  Result<bool> (*is)(const std::string& path, const Looker& look);
  Status (*inspect)(Inspection& inspection, const InspectRequest& request);
};
constexpr Special kSpecial[] = {
    {[](const std::string& path, const Looker&) { return LooksLikeNeff(path); }, InspectNeff},
    {IsCompileCache, InspectCache},
    {LooksLikeAdapter, InspectAdapter},
    {nxd::IsOptimizerFolder, InspectOptimizer}};

// nullptr if it is none of them.
Result<const Special*> FindSpecial(const std::string& path, const Looker& look) {
  for (const Special& special : kSpecial) {
    NXDKIT_ASSIGN(const bool is, special.is(path, look));
    if (is) return &special;
  }
  return nullptr;
}

// A file of changes, whatever its name; its base cannot be given here. nullptr if it is not one.
Result<const Kind*> FindChanges(const std::string& path) {
  for (const Kind* kind : Kinds()) {
    if (!kind->reads_base || !kind->is_file) continue;
    NXDKIT_ASSIGN(const bool is, kind->is_file(path));
    if (is) return kind;
  }
  return nullptr;
}

Status OpenAsKind(Inspection& inspection, const Kind& kind, const InspectRequest& request) {
  const bool is_path = !request.hints.memory || kind.reads_base;
  NXDKIT_ASSIGN(const bool folder,
                is_path ? inspection.artifact.look.IsFolder(request.path) : Result<bool>(false));
  if (folder) NXDKIT_TRY(DescribeTrainer(inspection, request.path));
  NXDKIT_TRY(kind.describe ? kind.describe(inspection, request.path, request.hints)
                           : SurveyWhole(inspection, kind, request.path, request.hints));
  if (inspection.form == kTorchProgram) return InspectProgram(inspection, request);
  return AddBlobs(inspection, request);
}

Status Open(Inspection& inspection, const InspectRequest& request) {
  if (request.kind) return OpenAsKind(inspection, *request.kind, request);
  if (request.hints.memory) {
    NXDKIT_ASSIGN(const Artifact opened, request.hints.memory());
    return OpenAsKind(inspection, *opened.kind, request);
  }
  NXDKIT_ASSIGN(const Special* const special, FindSpecial(request.path, inspection.artifact.look));
  NXDKIT_ASSIGN(const Kind* const changes,
                special ? Result<const Kind*>(nullptr) : FindChanges(request.path));
  if (special || changes) NXDKIT_TRY(CheckNoHints(request.path, request.hints));
  if (special) return special->inspect(inspection, request);
  NXDKIT_ASSIGN(const Kind* const kind, changes
                                            ? Result<const Kind*>(changes)
                                            : Recognise(request.path, inspection.artifact.look));
  return OpenAsKind(inspection, *kind, request);
}

using Outcome = LayoutCheck::Outcome;

// The reason why the layout is not checked; "" if it is.
std::string WhyNotChecked(const Inspection& inspection) {
  if (!inspection.not_checked.empty()) return inspection.not_checked;
  if (inspection.tensors == 0) return "no tensors here";
  const std::optional<models::ModelConfig>& config = inspection.artifact.config;
  if (inspection.artifact.config_fault) return inspection.artifact.config_fault->ToString();
  if (!config)
    return "no config.json, and shapes alone do not determine heads and family; name one with "
           "--config";
  if (!config->family) return models::NoTableText(*config);
  return "";
}

// Whether any option describes the artifact's layout: a number, a choice or a toggle. A text names
// something, such as a tag.
bool AnyClaim(const Kind& kind, const InputHints& hints) {
  return std::ranges::any_of(kind.options, [&](const OptionRow& row) {
    return (row.sides & kAsInput) != 0 && hints.Has(row.name()) &&
           (row.is_number() || row.is_toggle() || !row.choices().empty());
  });
}

void DoesNotFit(Inspection& inspection, const Error& error) {
  inspection.layout.outcome = Outcome::kDoesNotFit;
  inspection.layout.message = error.ToString();
  std::string warning = "the layout does not fit: " + inspection.layout.message;
  if (!error.hint().empty()) warning += "; " + error.hint();
  inspection.warnings.push_back(std::move(warning));
}

// Counts the parameters that are present; one with only some of its places is an error.
Status CountParameters(Inspection& inspection, const BoundArtifact& bound) {
  NXDKIT_ASSIGN(const PrimaryPlaces places,
                PrimaryPlaces::Find(bound.params, bound.bound.layout, true));
  inspection.parameters = 0;
  inspection.parameters_are_logical = true;
  LayoutCheck& layout = inspection.layout;
  layout.parameters = bound.params.size() - bound.carried.size();
  layout.carried = bound.carried.size();
  layout.ignored = std::set(bound.left_out.begin(), bound.left_out.end()).size();
  std::set<std::string> names;
  for (const TensorLayout& tensor : bound.bound.layout.tensors) names.insert(tensor.name);
  for (const models::Alias& alias : inspection.artifact.config->aliases)
    layout.aliases += names.contains(alias.name) ? 1 : 0;
  std::string first_missing;
  for (uint32_t i = 0; i < bound.params.size(); ++i) {
    if (!places.of(i).empty()) {
      inspection.parameters +=
          static_cast<uint64_t>(ElementCount(bound.params[i].shape).value_or(0));
      continue;
    }
    if (layout.missing_parameters++ == 0) first_missing = bound.params[i].name;
  }
  layout.outcome = Outcome::kFits;
  if (layout.missing_parameters == 0) return OkStatus();
  layout.message = fmt::format("{} of the model's {} parameters are missing, the first is {}",
                               layout.missing_parameters, layout.parameters, first_missing);
  if (inspection.is_whole) inspection.warnings.push_back(layout.message);
  return OkStatus();
}

void AddFacts(Inspection& inspection, const BoundArtifact& bound, const InputHints& hints) {
  if (const auto describe = bound.artifact.kind->describe_layout)
    describe(inspection, bound, hints);
  // Every rank may hold one of the same name.
  for (const std::string& name : std::set(bound.left_out.begin(), bound.left_out.end()))
    inspection.entries.push_back(name + " (not a parameter; nxd-convert drops it)");
  const std::vector<std::string>& warnings = bound.artifact.warnings;
  for (size_t i = inspection.artifact.warnings.size(); i < warnings.size(); ++i)
    inspection.warnings.push_back(warnings[i]);
}

// Whether the stored tensors fit the family's layout, and the facts that follow from that. The
// artifact is unchanged, even if its layout does not fit. kUsage if an option contradicts the
// artifact.
Status InspectLayout(Inspection& inspection, const InspectRequest& request) {
  inspection.layout.message = WhyNotChecked(inspection);
  if (!inspection.layout.message.empty()) return OkStatus();
  InputHints hints = request.hints;
  // Names and shapes are the same on both; the hardware is a fact here, not a requirement.
  AssumeHardware(hints);
  // A copy: if the layout does not fit, the tensors must still be shown.
  Result<BoundArtifact> bound = Bind(inspection.artifact, hints);
  if (!bound.ok() && bound.error().code() == Errc::kUsage &&
      AnyClaim(*inspection.artifact.kind, request.hints))
    return std::move(bound).error();
  if (!bound.ok()) {
    DoesNotFit(inspection, bound.error());
    return OkStatus();
  }
  AddFacts(inspection, *bound, request.hints);
  if (bound->quantised) {
    inspection.layout.message =
        "the weights are quantised: tensors are taken by their names, and nothing is proved of "
        "them";
    return OkStatus();
  }
  if (Status counted = CountParameters(inspection, *bound); !counted.ok()) {
    DoesNotFit(inspection, counted.error());
    return OkStatus();
  }
  inspection.bound = std::make_shared<const BoundArtifact>(*std::move(bound));
  return OkStatus();
}

}  // namespace

Result<Inspection> Inspect(const InspectRequest& asked) {
  Inspection inspection;
  InspectRequest request = asked;
  request.hints.config_optional = request.hints.partial = true;  // shows whatever is there
  NXDKIT_TRY(Open(inspection, request));
  const std::vector<std::string>& warnings = inspection.artifact.warnings;
  inspection.warnings.insert(inspection.warnings.end(), warnings.begin(), warnings.end());
  CountTensors(inspection);
  NXDKIT_TRY(InspectLayout(inspection, request));
  inspection.mount = MountOf(request.path);
  return inspection;
}

}  // namespace nxdkit::ops
