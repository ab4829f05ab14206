#include "formats/ops/verify/against.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "formats/ops/verify/compare.h"
#include "formats/ops/verify/structure.h"
#include "formats/ops/verify/wrong_heads.h"

namespace nxdkit::ops {
namespace {

// "F32 to BF16": the parameters' types here, and there, where they differ; "" when they do not.
std::string TypesText(const BoundArtifact& from, const BoundArtifact& to) {
  std::map<std::string, Dtype> dtypes;
  for (size_t t = 0; t < from.bound.stored.size(); ++t)
    for (const Piece& piece : from.bound.layout.tensors[t].pieces)
      dtypes.emplace(from.params[piece.param].name, from.bound.stored[t].dtype);
  std::set<std::string> pairs;
  for (size_t t = 0; t < to.bound.stored.size(); ++t)
    for (const Piece& piece : to.bound.layout.tensors[t].pieces) {
      const auto it = dtypes.find(to.params[piece.param].name);
      const Dtype dtype = to.bound.stored[t].dtype;
      if (it != dtypes.end() && it->second != dtype)
        pairs.insert(fmt::format("{} to {}", Name(it->second), Name(dtype)));
    }
  return fmt::format("{}", fmt::join(pairs, " and "));
}

// Whether most elements differ, as after rounding. Where few do, the wide artifact was made of the
// other's values, and those few are damage that rounding would hide.
bool LooksRounded(const BoundArtifact& artifact, const std::vector<Finding>& findings) {
  int64_t all = 0;
  for (const StoredTensor& stored : artifact.bound.stored)
    all += ElementCount(stored.shape).value_or(0);
  int64_t differing = 0;
  for (const Finding& finding : findings) differing += finding.count;
  return differing > all / 2;
}

}  // namespace

Status VerifyAgainst(const VerifyRequest& request, const BoundArtifact& artifact, SeenCrcs& crcs,
                     VerifyReport& report) {
  const std::string& path = *request.against;
  NXDKIT_ASSIGN(const Kind kind,
                request.against_kind ? Result<Kind>(*request.against_kind) : Recognise(path));
  NXDKIT_ASSIGN(const BoundArtifact other, OpenAndBind(path, kind, request.against_hints));
  const auto seen = [&](uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) {
    crcs.Add(tensor, offset, bytes);
  };
  Result<std::vector<Finding>> first = CompareArtifacts(other, artifact, request.run, seen);
  if (!first.ok()) {
    if (first.error().code() != Errc::kFindings) return std::move(first).error();
    report.findings.push_back(LayoutFinding(first.error()));
    return OkStatus();
  }
  const std::string types = TypesText(other, artifact);
  if (first->empty()) {
    report.checks.push_back(fmt::format("every element equals {}{}{}", path,
                                        types.empty() ? "" : ", converted from ", types));
    return OkStatus();
  }
  report.findings = *std::move(first);
  if (types.empty()) return ExplainHeads(other, artifact, report.findings);

  const std::string back_types = TypesText(artifact, other);
  NXDKIT_ASSIGN(std::vector<Finding> back, CompareArtifacts(artifact, other, request.run));
  if (back.empty() && LooksRounded(artifact, report.findings)) {
    report.findings.clear();
    report.checks.push_back(
        fmt::format("every element of {} equals the one here, rounded from {}", path, back_types));
    return OkStatus();
  }
  const bool is_source = !back.empty() && back.size() < report.findings.size();
  report.warnings.push_back(
      fmt::format("the element types differ: compared after {} was rounded from {}",
                  is_source ? request.path : path, is_source ? back_types : types));
  if (!is_source) return ExplainHeads(other, artifact, report.findings);
  report.findings = std::move(back);
  return ExplainHeads(artifact, other, report.findings);
}

}  // namespace nxdkit::ops
