#include "formats/kinds/nkipy/output_nkipy.h"
#include "formats/kinds/nkipy/read_nkipy.h"
#include "formats/kinds/survey.h"
#include "formats/kinds/table.h"

namespace nxdkit::kinds {
namespace {

constexpr OptionRow kRows[] = {
    {"tp,tensor-parallel-size", "N", "tensor parallel size", kAsInput | kAsTarget},
    {"tok-embedding", "columns|whole", "part of the embedding on each rank of NKIPy's engine",
     kAsTarget}};

Status DescribeNkipy(Survey& survey, const std::string& path, const InputHints& hints) {
  NXDKIT_TRY(SurveyWhole(survey, kNkipy, path, hints));
  survey.description = "rank files of vLLM with NKIPy";
  return OkStatus();
}

std::optional<int> NkipyTp(const BoundArtifact& bound) {
  return static_cast<int>(bound.artifact.files.size());
}

std::optional<models::Placement> NkipyHeads(const BoundArtifact& bound) {
  Result<models::Placement> heads = nkipy::Heads(bound.model->config, *NkipyTp(bound));
  return heads.ok() ? std::optional(*std::move(heads)) : std::nullopt;
}

}  // namespace

constinit const Kind kNkipy = {
    .name = "nkipy",
    .called = "NKIPy's rank files",
    .precedence = 9,
    .is_folder = IsNkipyFolder,
    .open = OpenNkipy,
    .bind = BindNkipy,
    .options = kRows,
    .tensor_parallel = NkipyTp,
    .heads = NkipyHeads,
    .check = CheckNkipy,
    .name_checks = NameNkipyChecks,
    .describe = DescribeNkipy,
    .decide = DecideNkipy,
};

}  // namespace nxdkit::kinds
