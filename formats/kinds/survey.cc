#include "formats/kinds/survey.h"

#include "formats/kinds/open.h"
#include "lib/system/look.h"

namespace nxdkit::kinds {

Status SurveyWhole(Survey& survey, const Kind& kind, const std::string& path,
                   const InputHints& hints) {
  NXDKIT_ASSIGN(survey.artifact, OpenArtifact(path, &kind, hints, survey.artifact.look));
  survey.form = kind.name;
  survey.description = kind.name;
  survey.is_whole = true;
  return OkStatus();
}

Result<uint64_t> BytesOfFile(const std::string& path) {
  NXDKIT_ASSIGN(const PathInfo info, LookAt(path));
  return info.kind == PathKind::kFile ? info.bytes : 0;
}

}  // namespace nxdkit::kinds
